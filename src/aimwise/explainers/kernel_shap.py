"""Kernel SHAP: Shapley values by a weighted regression on coalitions of features (Lundberg & Lee, NeurIPS 2017)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.device import seeded
from aimwise.errors import BadSetting, extra, unknown
from aimwise.explainers.base import Explainer
from aimwise.masked import Masked

EMPTY_DRAWS = 128  # of a random fill, for the value that every Shapley value is counted from
L1 = str | float | int
CERTAIN = 1e-6  # probabilities nearer to 0 or 1 have no log-odds of use
LINKS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda probs: probs,
    "logit": lambda probs: probs.double().logit(eps=CERTAIN),
}


@dataclass(eq=False, repr=False)
class KernelSHAP(Explainer):
    """Shapley values of the features an input has: what each adds to the answer, averaged over all orders of adding them.

    samples: how many coalitions each input is explained by, 2d + 2,048 for d features if not given, which is shap's own; where
    there are fewer, shap asks about every one of them and its values are exact.
    link: "identity" (shares of probability) or "logit" (of log-odds). l1_reg: shap's selection of features: 0 for none,
    "num_features(10)", "aic", "bic" or the strength of a lasso. shap's default is "num_features(10)", which leaves all but ten
    features at 0; ours is none, so that every weight is an estimate of a Shapley value.
    via: the package that does it, "shap" or "captum". draws: how often a random fill is drawn for each coalition; if not
    given, as often as keeps to so many `samples` questions in all.
    """

    method: ClassVar[str] = "kernel_shap"
    rows_at_once: ClassVar[int] = 16

    samples: int | None = None
    link: str = "identity"
    l1_reg: L1 = 0
    via: str = "shap"
    draws: int | None = None

    @property
    def asks(self) -> bool:
        return True

    def _suits(self, box: Masked) -> None:
        super()._suits(box)
        for what, name, known in (("link", self.link, LINKS), ("via", self.via, VIA)):
            if name not in known:
                raise unknown(what, name, known)
        rule = re.fullmatch(r"num_features\(\d+\)|aic|bic", self.l1_reg) if isinstance(self.l1_reg, str) else self.l1_reg >= 0
        if not rule or (self.via == "captum" and self.l1_reg):
            raise BadSetting(
                f"l1_reg={self.l1_reg!r} with via={self.via!r}, wanted 0 (captum knows no other), 'num_features(10)', 'aic', "
                "'bic' or the strength of a lasso."
            )
        if (self.samples is not None and self.samples < 4) or (self.draws is not None and self.draws < 1):
            raise BadSetting(f"Got samples={self.samples}, draws={self.draws}; wanted at least 4 samples and 1 draw, or None.")
        package(self.via)

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        pass

    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        W = torch.zeros(*batch.present.shape, probs.shape[1], device=probs.device)
        package(self.via)
        for i in range(len(batch)):
            players = batch.present[i].nonzero()[:, 0]
            if len(players) == 0:
                continue
            samples = self.samples or 2 * len(players) + 2048
            coalitions = min(samples, 2 ** min(len(players), 40) - 2)
            draws = self.draws or max(1, samples // max(coalitions, 1))
            worth = Coalitions(box.averaged(draws), batch.pick(torch.tensor([i])), players, probs[i], self.seed_)
            value = partial(worth, LINKS[self.link])
            if len(players) == 1:
                found = value(np.ones((1, 1))) - value(np.zeros((1, 1)))
            else:
                with seeded(self.seed_, probs.device), numpy_seeded(self.seed_):
                    found = VIA[self.via](value, len(players), samples, self.l1_reg)  # (players, C)
            W[i, players] = torch.from_numpy(found).to(W)
        return W


class Coalitions:
    """What the black box says of one input when some of its features are there; no coalition is asked about twice."""

    def __init__(self, box: Masked, one: Batch, players: Tensor, probs: Tensor, seed: int) -> None:
        self.box, self.one, self.players = box, one, players
        self.rng = torch.Generator().manual_seed(seed)
        self.known = {np.ones(len(players), dtype=bool).tobytes(): probs.cpu()}

    def __call__(self, link: Callable[[Tensor], Tensor], kept: np.ndarray) -> np.ndarray:
        """The worth (n, C) of coalitions (n, players)."""
        member = np.asarray(kept) > 0.5
        keys = [row.tobytes() for row in member]
        new = {key: i for i, key in enumerate(keys) if key not in self.known}
        empty = [i for i in new.values() if not member[i].any()]
        for some, box in (
            (empty, self.box.averaged(max(EMPTY_DRAWS, self.box.draws))),
            ([i for i in new.values() if i not in empty], self.box),
        ):
            if some:
                z = torch.zeros(1, len(some), self.one.present.shape[1], device=self.one.present.device)
                z[0][:, self.players] = torch.from_numpy(member[some]).to(z)
                answers = box.each(self.one, z, self.rng)[0].cpu()
                self.known |= {keys[i]: answer for i, answer in zip(some, answers, strict=True)}
        return link(torch.stack([self.known[key] for key in keys])).double().numpy()


def by_shap(value: Callable[[np.ndarray], np.ndarray], d: int, samples: int, l1_reg: L1) -> np.ndarray:
    """Shapley values (d, C) by shap's KernelExplainer."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"shap\b|sklearn\b")  # of singular systems, and of paths that end early
        explainer = package("shap").KernelExplainer(value, np.zeros((1, d)))
        found: np.ndarray = explainer.shap_values(np.ones((1, d)), nsamples=samples, l1_reg=l1_reg, silent=True)[0]
    return found


def by_captum(value: Callable[[np.ndarray], np.ndarray], d: int, samples: int, l1_reg: L1) -> np.ndarray:
    """Shapley values (d, C) by captum's KernelShap, class by class from the same coalitions."""
    whole, state = torch.ones(1, d), torch.get_rng_state()
    explainer = package("captum").KernelShap(lambda z: torch.from_numpy(value(z.numpy())).float())
    found = []
    for target in range(value(np.ones((1, d))).shape[1]):
        torch.set_rng_state(state)
        baselines = torch.zeros_like(whole)
        made = explainer.attribute(whole, baselines, target=target, n_samples=samples, perturbations_per_eval=samples)
        found.append(made[0])
    return torch.stack(found, 1).double().numpy()


VIA: dict[str, Callable[[Callable[[np.ndarray], np.ndarray], int, int, L1], np.ndarray]] = {
    "shap": by_shap,
    "captum": by_captum,
}


def package(via: str) -> Any:
    """The module of a package that has the explainer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what importing shap makes its own plots complain of
        return extra({"shap": "shap", "captum": "captum.attr"}[via], "rivals")


@contextmanager
def numpy_seeded(seed: int) -> Iterator[None]:
    """NumPy's global generator, which shap draws from, seeded inside, and as it was outside."""
    before = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(before)
