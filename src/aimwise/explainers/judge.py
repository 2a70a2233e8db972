"""Held-out rows and masks on which an amortized explainer is judged each epoch, and by which a collapse is found out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.batch import Batch
from aimwise.errors import Collapsed
from aimwise.explainers.asked import Draw
from aimwise.explainers.base import overlap
from aimwise.masked import Masked
from aimwise.nn.losses import additive, cross_entropy
from aimwise.nn.sampling import uniform_masks
from aimwise.pairs import Pairs
from aimwise.training import Numbers, Run

MASKS = 32
DRAWS = 4
SHARE = 0.1
FEWEST, MOST = 16, 500

SILENT = 0.02  # a selector this near 0 or 1 on average chooses nothing
FLAT = 1e-4  # weights that differ by less than this from feature to feature rank nothing
UNRELATED = 0.1  # below this correlation with the black box the weights are noise
LEAST = 1e-4  # probability that is taken for what it is
STEPS, PULL = 50, 1e-4  # of the search for where scores begin, and how strongly it is held to an empty input's answer
STILL = 1e-3  # a black box whose answers vary less than this has nothing to explain


@dataclass(frozen=True)
class Judge:
    """Held-out rows, masks of them, and what the black box says of those."""

    batch: Batch
    probs: Float[Tensor, "B C"]
    z: Float[Tensor, "B M d"]
    said: Float[Tensor, "B M C"]

    @classmethod
    def hold_out(
        cls, box: Masked, data: Batch, probs: Tensor, rng: torch.Generator, *, draw: Draw | None = None
    ) -> tuple[Judge, Tensor]:
        """A judge on some of the rows, and the numbers of the others; masks are uniform unless another way to draw is given."""
        out, rest = held_out(len(data), rng)
        batch = box.features.trim(data.pick(out))
        masks, draws = affordable(box, len(out))
        draw = draw or partial(uniform_masks, noise=box.features.noise)
        z = draw(batch.present, masks, rng)
        said = box.averaged(draws).each(batch, z, rng)
        return cls(batch, probs[out.to(probs.device)], z, said), rest

    def score(
        self, W: Float[Tensor, "B d C"], base: Float[Tensor, " C"], pi: Tensor | None, *, hard: bool, pairs: Pairs | None = None
    ) -> Numbers:
        """Agreement with the black box, of labels if `hard`, else of probabilities; that of no weights, and that of weights with
        pairs; signs of a collapse."""
        scores = additive(W, self.z, base)  # (B, M, C)
        alone, none = (self.agreement(found, hard=hard) for found in (scores, base.expand_as(scores)))
        numbers = {"agreement": alone, "without": none, "tracking": self.tracking(W)}
        numbers["variation"] = float(W.std(1).max()) if W.shape[1] > 1 else float(W.std())
        if pairs is not None:
            numbers["in_twos"] = self.agreement(scores + pairs.scores(self.z), hard=hard)
        if pi is not None:
            numbers["selected"] = float(pi[self.batch.present].mean())
        return numbers

    def agreement(self, scores: Float[Tensor, "B M C"], *, hard: bool) -> float:
        """How far scores of the masks agree with the black box: in labels if `hard`, else in probabilities."""
        if hard:
            return float((scores.argmax(-1) == self.said.argmax(-1)).float().mean())
        return float(overlap(scores.softmax(-1), self.said).mean())

    def start(self, empty: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
        """Where the straight way from nothing to the whole input begins that is nearest to the answers to masks of every size.

        An empty input itself can be like no other: what the black box says of it counts only where there is nothing else.
        """
        share = self.z.sum(2) / self.batch.present.sum(1).clamp_min(1)[:, None]  # (B, M)
        some = share > 0
        whole = log_odds(self.probs)[:, None].expand(-1, self.z.shape[1], -1)[some]  # (n, C)
        share, said, begin = share[some][:, None], self.said[some], empty.clone().requires_grad_()
        nearest = torch.optim.LBFGS([begin], max_iter=STEPS, line_search_fn="strong_wolfe")

        def distance() -> Tensor:
            nearest.zero_grad()
            far = cross_entropy(said, (1 - share) * begin + share * whole) + PULL * (begin - empty).square().sum()
            torch.autograd.backward(far)
            return far

        if len(said):
            nearest.step(distance)  # type: ignore[no-untyped-call]
        return begin.detach().log_softmax(-1)

    def tracking(self, W: Float[Tensor, "B d C"]) -> float:
        """The mean correlation, over the masks of a row, of its additive score and the black box's probability."""
        c = self.probs.argmax(-1)[:, None, None]  # (B, 1, 1)
        p = self.said.gather(2, c.expand(-1, self.said.shape[1], 1)).squeeze(2)  # (B, M)
        s = additive(W, self.z, W.new_zeros(W.shape[2])).log_softmax(-1)
        s = s.gather(2, c.expand(-1, s.shape[1], 1)).squeeze(2)  # (B, M)
        moving = p.std(1) > STILL
        if not moving.any():
            return 1.0
        p, s = p[moving], s[moving]
        p, s = p - p.mean(1, keepdim=True), s - s.mean(1, keepdim=True)
        return float(((p * s).sum(1) / (p.norm(dim=1) * s.norm(dim=1)).clamp_min(1e-9)).mean())

    def still(self) -> bool:
        """Whether the black box says the same whatever is taken away."""
        return bool((self.said.std(1) < STILL).all())

    def refuse_collapse(self, run: Run) -> None:
        """Raise if the best epoch's explainer explains nothing although the black box's answers do vary."""
        best = run.history[run.best]
        if self.still():
            return
        selected = best.get("selected", 0.5)
        if not SILENT <= selected <= 1 - SILENT:
            state = "nothing" if selected < 0.5 else "everything"
            raise Collapsed(
                f"The selector keeps {state} (mean probability {selected:.3f}), so the explainer saw no contrast to learn from. "
                'Use selector_learns_from="approximator", raise exploration, or use the default recipe AIM().'
            )
        if best["variation"] < FLAT:
            raise Collapsed(
                f"All features got the same weight (they differ by {best['variation']:.2g}), so nothing is ranked. "
                "Lower beta, train for more epochs, or use the default recipe AIM()."
            )
        if best["tracking"] < UNRELATED:
            raise Collapsed(
                f"The weights do not follow the black box: correlation {best['tracking']:.2f} on held-out masks, loss "
                f"{best['loss']:.3f}. Train on more rows or for more epochs, try another fill, or use the default recipe AIM()."
            )


def log_odds(probs: Float[Tensor, "*B C"]) -> Float[Tensor, "*B C"]:
    """Log-probabilities, none of them without end, less their mean."""
    logs = probs.clamp_min(LEAST).log()
    return logs - logs.mean(-1, keepdim=True)


def held_out(n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The numbers of some of n rows to judge by, and those of the others."""
    held = min(max(round(SHARE * n), FEWEST), MOST, n // 2)
    order = torch.randperm(n, generator=rng)
    return order[:held], order[held:]


def affordable(box: Masked, rows: int) -> tuple[int, int]:
    """How many masks of each row to judge by and how often to draw a random fill: no more than a fifth of what is left."""
    left = box.meter.left
    if left is None:
        return MASKS, DRAWS
    each = left // 5 // rows
    draws = min(max(each // MASKS, 1), DRAWS)
    return min(max(each // draws, 2), MASKS), draws
