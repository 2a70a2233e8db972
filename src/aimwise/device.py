"""Where numbers are worked on, and randomness that leaves the generators of others alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from aimwise.errors import BadSetting


@contextmanager
def seeded(seed: int, place: torch.device) -> Iterator[None]:
    """Torch's own generators seeded inside, and as they were outside."""
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def repeatable(place: torch.device) -> Iterator[None]:
    """On a GPU, sums in one order alone inside where torch has a way to, so that what is trained once can be trained again."""
    if place.type != "cuda":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it is first used
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):  # the faster ways add up gradients in any order
            warnings.filterwarnings("ignore", message=".*does not have a deterministic implementation.*")
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def resolve_device(device: str) -> torch.device:
    """A device by name; "auto" is the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadSetting(f"device={device!r}, but torch sees no GPU here. Use device='auto' or 'cpu'.")
    try:
        return torch.device(device)
    except RuntimeError as e:
        raise BadSetting(f"device={device!r} is not a device ({e}). Use 'auto', 'cpu' or 'cuda'.") from e


def available_device(device: str) -> torch.device:
    """The device an explainer was fitted on, or the one there is: what was learned on a GPU is explained anywhere."""
    return resolve_device("auto" if device.startswith("cuda") else device)
