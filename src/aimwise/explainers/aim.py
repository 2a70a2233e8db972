"""AIM: an additive explanation for every class, learned once and given in one pass (Vo et al., ICLR 2023)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.errors import BadBlackBox, BadSetting, unknown
from aimwise.explainers.asked import Asked, Draw
from aimwise.explainers.judge import Judge
from aimwise.explainers.learned import Learned
from aimwise.explainers.steps import SEEN_AHEAD, asked_steps, plain_steps
from aimwise.explainers.weighed import Weighed, together
from aimwise.masked import Masked
from aimwise.nn import losses, sampling
from aimwise.nn.build import family
from aimwise.pairs import Pairs
from aimwise.processes import Share
from aimwise.training import Numbers

Sampler = Callable[[Tensor, float, sampling.Source], Tensor]

SAMPLERS: dict[str, Sampler] = {
    "concrete": sampling.concrete,
    "concrete_released": sampling.concrete_released,
    "hard": sampling.hard,
    "straight_through": sampling.straight_through,
}
MASKS: dict[str, Callable[..., Tensor]] = {"uniform": sampling.uniform_masks}
TARGETS: dict[str, Callable[[Tensor], Tensor]] = {"soft": lambda probs: probs, "hard": losses.hardened}
LOSSES = {"paper": losses.cross_entropy, "released": losses.cross_entropy_released}
NORMS = {"paper": losses.group_norm, "released": losses.group_norm_released}
SPENT = 0.1  # of the questions that are allowed may go into answers to new rows
START = "start"
MOST_IN_TWOS = 256  # features: of the pixels of MNIST, what they say in twos gains nothing and takes long


class Start(nn.Module):
    """Where additive scores begin, as it is learned."""

    def __init__(self, first: Float[Tensor, " C"]) -> None:
        super().__init__()
        self.weight = nn.Parameter(first.clone())

    def forward(self) -> Float[Tensor, " C"]:
        return self.weight


@dataclass(eq=False, repr=False)
class AIM(Learned):
    """Train a small explainer once; then one pass weighs every feature of any input for every class.

    The default recipe learns from random masks and the model's probabilities. `AIM.paper()` is the paper's objective with
    explainer, selector and approximator; `AIM.released()` is what the authors' code does.

    masks: how z is drawn: "uniform" (random sets of every size, no selector), or from the selector's probabilities by
    "concrete", "concrete_released", "hard" or "straight_through".
    masks_per_row: how many z are drawn for a row at each step. target: "soft" (the model's probabilities) or "hard" (its label).
    intercept: learn where sums begin, most often near what the model says of an empty input; else they begin even.
    networks: "default", "paper" or "released".
    selector_learns_from: "approximator" (L2 alone) or "both" (L1 and L2, the paper to the letter, which can collapse).
    exploration: how strongly the selector's probabilities are pulled towards one half.
    alpha, beta, tau: the paper's; alpha weighs L2, beta the group norm, tau is the temperature.
    rank: what features are weighed by: "W" (the explainer's weights, for every class) or "pi" (the selector's probabilities, for
    the predicted class alone). explainer: False trains selector and approximator alone, by L2, which needs rank="pi". Both are
    for ablations, and a selector alone is not refused when it has collapsed.
    most_queries: a fit that would ask about more random masks asks about so many once, and learns from them again and again.
    least_rows: a table of fewer rows is joined by rows made of them, each feature from another row; few texts are joined by
    texts made of them, in which some words are others (random masks only; 0 for none).
    pairs: how many numbers of each patch or segment of an image tell what they say in twos beyond their weights (random masks,
    the default networks and up to 256 features only). Features are then ranked by that as well, where it agrees better with
    held-out answers of the model; 0 for weights alone.
    look: where the model is a torch network that reads ids, E sees what it computes at each word, without gradients. Fitting
    asks once more about each input of an epoch for that; explaining does not. A fit with max_queries does not look.
    The other settings are those of `Learned`.
    """

    method: ClassVar[str] = "aim"
    scores: ClassVar[bool] = True

    alpha: float = 1.0
    beta: float = 1e-4
    tau: float = 0.2
    masks: str = "uniform"
    masks_per_row: int = 16
    target: str = "soft"
    intercept: bool = True
    loss: str = "paper"
    norm: str = "paper"
    networks: str = "default"
    selector_learns_from: str = "approximator"
    exploration: float = 0.0
    most_queries: int | None = 1 << 19
    rank: str = "W"
    explainer: bool = True
    pairs: int = 16
    look: bool = True

    pairs_ = 0  # numbers of each feature that tell what features say in twos
    sight_ = 0  # numbers that E sees of each feature

    @property
    def every_class(self) -> bool:
        return self.rank == "W"

    @classmethod
    def paper(cls, *, alpha: float = 1.0, beta: float = 1e-3, tau: float = 0.2, epochs: int = 20, device: str = "auto") -> AIM:
        """The paper's objective, equation (5): hard labels, Concrete samples, explainer, selector and approximator.

        Two things keep it from collapsing. L1's gradient does not reach the selector, which would switch everything off to
        make L1 small. And since equation (4), unlike the information about K features in (3), is best when everything is
        kept, a mild pull of pi towards a fair coin (`exploration`) keeps the samples diverse.
        """
        return cls(
            device=device,
            alpha=alpha,
            beta=beta,
            tau=tau,
            masks="concrete",
            masks_per_row=1,
            target="hard",
            intercept=False,
            networks="paper",
            exploration=0.5,
            epochs=epochs,
            patience=None,
            most_rows=None,
            lr=1e-3,
            schedule="constant",
            weight_decay=0.0,
            average=0.0,
        )

    @classmethod
    def released(cls, *, alpha: float = 1.0, beta: float = 1e-3, epochs: int = 20, device: str = "auto") -> AIM:
        """The authors' code: no temperature, softmax twice, another norm, networks that see single cells."""
        return cls(
            device=device,
            alpha=alpha,
            beta=beta,
            tau=1.0,
            masks="concrete_released",
            masks_per_row=1,
            target="hard",
            intercept=False,
            loss="released",
            norm="released",
            networks="released",
            selector_learns_from="both",
            epochs=epochs,
            patience=None,
            most_rows=None,
            lr=1e-3,
            schedule="released",
            weight_decay=0.0,
            average=0.0,
        )

    def _fit(self, box: Masked, data: Batch, probs: Float[Tensor, "N C"], seed: int, folder: Path | None) -> None:
        self._check_settings()
        rng = torch.Generator().manual_seed(seed)
        lesson = self._lesson(box, data, probs, seed, rng, folder)
        self.sight_ = self._sight(box, data)
        few = self.masks in MASKS and data.present.shape[1] <= MOST_IN_TWOS
        self.pairs_ = self.pairs if few and family(box.features.kind, self.networks).paired else 0
        nets = self._networks(box.features.kind, box.features.layout).to(probs.device)
        if self.masks in MASKS:
            data, probs = self._enlarged(box, data, probs, seed)
            lesson = replace(lesson, data=data, probs=probs)
        judge, rows = Judge.hold_out(box, data, probs, rng)
        if not self.intercept:
            self.base_ = torch.zeros_like(self.base_)
        elif self.explainer:
            nets[START] = Start(judge.start(self.base_))
        learn = self._from_selected_masks
        if self.masks in MASKS:
            draw = partial(MASKS[self.masks], noise=box.features.noise)
            asked = Asked.within_budget(box, data, rows, self.masks_per_row, self.most_queries, self._plan(), rng)
            if asked is not None:
                asked.ask(lesson, draw)
                rows = asked.rows
            learn = partial(self._from_random_masks, asked, draw)

        def steps(order: Tensor) -> Iterator[Tensor]:
            return learn(nets, box, data, probs, order, rng)

        def score(nets: nn.ModuleDict) -> dict[str, float]:
            if not self.explainer:
                return self._approximated(nets, box, judge)
            with torch.no_grad():
                found = self._one_pass(nets, box, judge.batch, judge.probs)
                W = found.W * judge.batch.present[..., None]  # (B, d, C)
                pi = nets["selector"](judge.batch.x) if "selector" in nets else None
                numbers = judge.score(W, self._start(nets), pi, hard=self.target == "hard", pairs=found.pairs)
            return numbers | {"queries": float(box.meter.queries)}

        run = self._train(nets, steps, score, rows, lesson)
        if START in self.nets_:
            self.base_ = self._start(self.nets_).detach().log_softmax(-1)
            del self.nets_[START]
        if self.pairs_ and not run.history[run.best]["in_twos"] > run.history[run.best]["agreement"]:
            E: Any = self.nets_["explainer"]
            self.pairs_, E.twos = 0, None  # what it says in twos does not hold of inputs that it has not seen
        if self.explainer:
            judge.refuse_collapse(run)

    def _enlarged(self, box: Masked, data: Batch, probs: Tensor, seed: int) -> tuple[Batch, Float[Tensor, "N C"]]:
        """The rows to learn from, and where they are few, more of them made of their parts; with the model's answers to all."""
        allowed = [int(SPENT * most) for most in (box.meter.left, self.most_queries) if most is not None]
        more = min([box.features.lacking(len(data), self.least_rows), *allowed])
        if more <= 0:
            return data, probs
        new = box.features.enlarged(data, more, torch.Generator().manual_seed(seed + 2))
        if len(new) == len(data):
            return data, probs
        return new, torch.cat([probs, box.whole(new.pick(torch.arange(len(data), len(new))))])

    def _from_random_masks(
        self,
        asked: Asked | None,
        draw: Draw,
        nets: nn.ModuleDict,
        box: Masked,
        data: Batch,
        probs: Tensor,
        order: Tensor,
        rng: torch.Generator,
    ) -> Iterator[Tensor]:
        """L1 + beta ||W||_2,1 on random masks; those of several steps are asked about in one call.

        Pairs learn what the weights leave: L1 again, with weights that do not move by it.
        """
        entropy, target, norm = LOSSES[self.loss], TARGETS[self.target], NORMS[self.norm]
        steps = asked_steps(
            box,
            data,
            probs,
            order,
            size=self.batch_size,
            masks=self.masks_per_row,
            asked=asked,
            draw=draw,
            ask=box.each,
            sight=self.sight_,
            rng=rng,
        )
        for step, known, z, said, seen in steps:
            batch = step.batch
            whole = batch.present[:, None].to(z.dtype)  # (B, 1, d), whose answer is known already
            z, said = torch.cat([z, whole], 1), torch.cat([said, known[:, None]], 1)
            W, pairs = self._weights(nets, box, batch, known, seen)  # (B, d, C)
            scores = losses.additive(W, z, self._start(nets))  # (B, M + 1, C)
            first = entropy(target(said), scores)
            if pairs is not None:
                first = first + entropy(target(said), scores.detach() + pairs.scores(z))
            size = self.beta * self._share_of_norm(step.share)
            yield step.share.weight * first + size * norm(W * batch.present[..., None])

    def _start(self, nets: nn.ModuleDict) -> Float[Tensor, " C"]:
        """Where sums begin: learned, or even."""
        return nets[START]() if START in nets else self.base_

    def _share_of_norm(self, share: Share) -> float:
        """What the norm of a process's rows counts for: the released one is a sum over inputs, not a mean."""
        return share.counts if self.norm == "released" else share.weight

    def _from_selected_masks(
        self, nets: nn.ModuleDict, box: Masked, data: Batch, probs: Tensor, order: Tensor, rng: torch.Generator
    ) -> Iterator[Tensor]:
        """L1 + alpha L2 + beta ||W||_2,1, equation (5), on masks drawn from the selector's probabilities."""
        entropy, target, norm = LOSSES[self.loss], TARGETS[self.target], NORMS[self.norm]
        M, soft = self.masks_per_row, box.features.soft.to(probs.device)
        for step, p in plain_steps(box, data, probs, order, size=self.batch_size, rng=rng):
            batch, share = step.batch, step.share
            W = self._weights(nets, box, batch, p)[0] if self.explainer else None  # (B, d, C)
            pi = nets["selector"](batch.x)  # (B, d)
            z = SAMPLERS[self.masks](pi[:, None].expand(-1, M, -1), self.tau, step.drawing(rng))  # (B, M, d)
            z = sampling.snap_where(z, soft) * batch.present[:, None]
            gate = box.features.spread(batch, z).flatten(0, 1)  # (B * M, p)
            guess = nets["approximator"](batch.x.repeat_interleave(M, 0), gate)  # (B * M, C)
            second = share.weight * entropy(target(p).repeat_interleave(M, 0), guess)
            there = share.counts * int(batch.present.sum()) / int(step.whole.present.sum())
            pull = self.exploration * there * losses.decidedness(pi[batch.present])
            if W is None:
                yield self.alpha * second + pull
                continue
            said = step.asked(box, z.detach(), rng)  # (B, M, C)
            learns = z if self.selector_learns_from == "both" else z.detach()
            first = share.weight * entropy(target(said), losses.additive(W, learns, self._start(nets)))
            size = self.beta * self._share_of_norm(share)
            yield first + self.alpha * second + size * norm(W * batch.present[..., None]) + pull

    @torch.no_grad()
    def _weigh(self, box: Masked, batch: Batch, probs: Float[Tensor, "B C"]) -> Float[Tensor, "B d C"]:
        if self.rank == "pi":
            pi: Tensor = self.nets_["selector"](batch.x)  # (B, d)
            return pi[..., None] * losses.hardened(probs)[:, None]
        return self._one_pass(self.nets_, box, batch, probs).W

    @torch.no_grad()
    def _explained(self, box: Masked, batch: Batch, known: Float[Tensor, "B C"] | None) -> Weighed:
        return self._one_pass(self.nets_, box, batch, known) if self.rank == "W" else super()._explained(box, batch, known)

    def _sight(self, box: Masked, data: Batch) -> int:
        """How many numbers the black box shows of each feature; 0 if none, or if they are not wanted."""
        wanted = self.look and family(box.features.kind, self.networks).looks and box.meter.most is None
        found = box.looked(box.features.trim(data.cut(0, 1))) if wanted else None
        return 0 if found is None else found[1].shape[2]

    def _weights(
        self, nets: nn.ModuleDict, box: Masked, batch: Batch, probs: Float[Tensor, "B C"], seen: Tensor | None = None
    ) -> tuple[Float[Tensor, "B d C"], Pairs | None]:
        """What E says of inputs; what the black box computes at each feature is asked for where E looks and it is not known."""
        if self.sight_ and seen is None:
            seen = self._looked(box, batch)[1]
        given = (batch.x, probs) if seen is None else (batch.x, probs, seen)
        E: Any = nets["explainer"]
        W, pairs = E.weighed(*given) if self.pairs_ else (E(*given), None)
        return W, pairs

    def _one_pass(self, nets: nn.ModuleDict, box: Masked, batch: Batch, known: Float[Tensor, "B C"] | None) -> Weighed:
        """What the black box says of inputs, where that is not known yet, and what E does; some at a time where E looks."""
        if not self.sight_:
            probs = box.whole(batch) if known is None else known
            self._same_classes(box.blackbox)
            return Weighed(probs, *self._weights(nets, box, batch, probs))
        made = []
        rows = max(1, SEEN_AHEAD // (batch.present.shape[1] * self.sight_))
        for start in range(0, max(len(batch), 1), rows):
            part = batch.cut(start, start + rows)
            said, seen = self._looked(box, part)
            probs = said if known is None else known[start : start + rows]
            made.append(Weighed(probs, *self._weights(nets, box, part, probs, seen)))
        return together(made)

    def _looked(self, box: Masked, batch: Batch) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B d h"]]:
        """What the black box says of inputs and what it computes at each of their features, or an error if that is another."""
        found = box.looked(batch)
        self._same_classes(box.blackbox)
        if found is None or found[1].shape[2] != self.sight_:
            shown = "nothing" if found is None else f"{found[1].shape[2]} numbers"
            raise BadBlackBox(
                f"The explainer looks at {self.sight_} numbers that the network it was fitted on computes at each word, and "
                f"{box.blackbox.called} shows {shown}. Hand over that network itself, or fit with look=False."
            )
        return found

    @torch.no_grad()
    def _approximated(self, nets: nn.ModuleDict, box: Masked, judge: Judge) -> Numbers:
        """How often the approximator, shown each feature by its share pi, says the black box's label."""
        pi = nets["selector"](judge.batch.x) * judge.batch.present
        guess = nets["approximator"](judge.batch.x, box.features.spread(judge.batch, pi))
        same = (guess.argmax(-1) == judge.probs.argmax(-1)).float().mean()
        return {"agreement": float(same), "selected": float(pi[judge.batch.present].mean())}

    def _networks(self, kind: str, layout: Any) -> nn.ModuleDict:
        made, classes = family(kind, self.networks), len(self.classes_)
        more = (self.pairs_,) * made.paired + (self.sight_,) * made.looks
        nets = nn.ModuleDict({"explainer": made.explainer(layout, classes, *more)} if self.explainer else {})
        if self.masks not in MASKS:
            nets["selector"] = made.selector(layout)
            nets["approximator"] = made.approximator(layout, classes)
        return nets

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        facts, tensors = super()._learned()
        return facts | {"sight": self.sight_, "pairs": self.pairs_}, tensors

    def _restore(self, box: Masked, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.sight_, self.pairs_ = int(facts.get("sight", 0)), int(facts.get("pairs", 0))  # the first versions do not say
        super()._restore(box, facts, tensors)

    def _check_settings(self) -> None:
        for what, name, known in (
            ("masks", self.masks, (*MASKS, *SAMPLERS)),
            ("target", self.target, TARGETS),
            ("loss", self.loss, LOSSES),
            ("norm", self.norm, NORMS),
            ("selector_learns_from", self.selector_learns_from, ("approximator", "both")),
            ("rank", self.rank, ("W", "pi")),
        ):
            if name not in known:
                raise unknown(what, name, known)
        if (self.rank == "pi" and self.masks in MASKS) or (self.rank == "W" and not self.explainer):
            raise BadSetting(
                f"Got rank={self.rank!r}, masks={self.masks!r}, explainer={self.explainer}; rank='pi' needs masks drawn from a "
                "selector, such as 'concrete', and explainer=False needs rank='pi'."
            )
        if self.masks_per_row < 1 or self.tau <= 0 or min(self.alpha, self.beta, self.pairs) < 0:
            raise BadSetting(
                f"Got masks_per_row={self.masks_per_row}, tau={self.tau}, alpha={self.alpha}, beta={self.beta}, "
                f"pairs={self.pairs}; wanted masks_per_row of at least 1, tau above 0, alpha, beta and pairs not below 0."
            )
