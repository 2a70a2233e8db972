"""Answers of a black box in a folder, known by what it was asked about: nothing is asked twice, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aimwise.errors import BadBlackBox, BadFile
from aimwise.files import load_tensors, save_tensors, write_whole
from aimwise.gates import GatedIds, GatedTexts

FORMAT = "aimwise-answers 1"
SIZE = 16  # bytes of a key


class Answers:
    """Blocks of answers, each a file that is written whole or not at all; several processes may add to one folder.

    model: its name; a folder with answers of another is refused.
    """

    def __init__(self, folder: Path, model: str) -> None:
        self.folder, self.model = folder, model
        self.rows: dict[bytes, np.ndarray] = {}
        for file in sorted(folder.glob("*.safetensors")):
            tensors, about = load_tensors(file)
            if about.get("format") != FORMAT or set(tensors) != {"keys", "answers"}:
                raise BadFile(f"{file} does not hold answers of a model. Choose another folder.")
            if about.get("model") != model:
                raise BadFile(
                    f"{folder} holds answers of {about.get('model')!r}, and this model is {model!r}. Choose another folder."
                )
            self._take(tensors["keys"].numpy(), tensors["answers"].numpy())

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, keys: Sequence[bytes], answers: Tensor) -> None:
        """Keep a block."""
        table = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), SIZE)
        tensors = {"keys": torch.from_numpy(table.copy()), "answers": answers.float()}
        name = blake2b(table.tobytes(), digest_size=SIZE).hexdigest()
        about = {"format": FORMAT, "model": self.model}
        write_whole(self.folder / f"{name}.safetensors", lambda path: save_tensors(path, tensors, about))
        self._take(table, answers.float().numpy())

    def _take(self, keys: np.ndarray, answers: np.ndarray) -> None:
        self.rows.update((key.tobytes(), row) for key, row in zip(keys, answers, strict=True))


def keys_of(inputs: Any) -> list[bytes]:
    """What tells one input from another: its content and type, in whatever form a black box takes it."""
    return [blake2b(part, digest_size=SIZE).digest() for part in contents(inputs)]


def contents(inputs: Any) -> Iterator[bytes]:
    """Each input as bytes that two inputs share only if they are the same."""
    if isinstance(inputs, GatedTexts):
        share, spans = inputs.share.cpu().numpy(), np.asarray(inputs.spans)
        for text, place, kept in zip(inputs.texts, spans, share, strict=True):
            yield repr((text, inputs.fill, place.tolist(), kept.tolist())).encode()
    elif isinstance(inputs, GatedIds):
        for ids, kept in zip(inputs.ids.tolist(), inputs.share.tolist(), strict=True):
            yield repr((ids, kept)).encode()
    elif hasattr(inputs, "itertuples"):
        head = repr(list(zip(map(str, inputs.columns), map(str, inputs.dtypes), strict=True))).encode()
        for row in inputs.itertuples(index=False, name=None):
            yield head + repr(row).encode()
    elif isinstance(inputs, Tensor):
        yield from contents(inputs.detach().cpu().numpy())
    elif isinstance(inputs, np.ndarray):
        head = f"{inputs.dtype.str}{inputs.shape[1:]}".encode()
        for row in np.ascontiguousarray(inputs):
            yield head + (repr(row.tolist()).encode() if inputs.dtype == object else row.tobytes())
    elif isinstance(inputs, list | tuple):
        for one in inputs:
            yield b"text" + one.encode() if isinstance(one, str) else next(contents(np.asarray(one)[None]))
    else:
        raise BadBlackBox(f"Answers about {type(inputs).__name__} cannot be kept. Leave the folder out.")
