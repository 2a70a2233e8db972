"""Metrics over many numbers of features: areas over perturbation curves, insertion and deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aimwise.batch import Batch
from aimwise.explanation import Explanation, Target
from aimwise.masked import Masked
from aimwise.metrics.ablation import DRAWS, Ablation, first
from aimwise.metrics.faithfulness import comprehensiveness, of_class, sufficiency

SHARES = tuple(i / 10 for i in range(11))


def aopc_comprehensiveness(ablations: Sequence[Ablation]) -> Float[Tensor, " B"]:
    """The mean over the k of what is lost when the first k features are removed. Higher is better."""
    return torch.stack([comprehensiveness(ablation) for ablation in ablations]).mean(0)


def aopc_sufficiency(ablations: Sequence[Ablation]) -> Float[Tensor, " B"]:
    """The mean over the k of what is lost when only the first k features are kept. Lower is better."""
    return torch.stack([sufficiency(ablation) for ablation in ablations]).mean(0)


def insertion(
    box: Masked, inputs: Any, explanation: Explanation, *, target: Target = None, label: bool = False, seed: int = 0
) -> Float[Tensor, " B"]:
    """The area under the class's probability (or under being predicted, if `label`) as features are put in, the first first.

    Higher is better.
    """
    return area(box, inputs, explanation, explanation.order(target), target, label=label, seed=seed)


def deletion(
    box: Masked, inputs: Any, explanation: Explanation, *, target: Target = None, label: bool = False, seed: int = 0
) -> Float[Tensor, " B"]:
    """The area under the class's probability (or under being predicted) as features are taken away, the first first.

    Lower is better.
    """
    worst_first = last_first(explanation.order(target, by="needed"), explanation.present)
    return area(box, inputs, explanation, worst_first, target, label=label, seed=seed)


def area(
    box: Masked,
    inputs: Any,
    explanation: Explanation,
    order: Int[Tensor, "B d"],
    target: Target,
    *,
    label: bool,
    seed: int,
) -> Float[Tensor, " B"]:
    """The area under the class's curve while the first 0, 10, ... 100 % of an order are kept; random fills are averaged."""
    batch = inputs if isinstance(inputs, Batch) else box.features.encode(inputs).to(torch.device("cpu"))
    rank = order.argsort(1)  # (B, d) which place each feature has
    counts = explanation.present.sum(1, keepdim=True).double()  # (B, 1)
    z = torch.stack([(rank < (share * counts).round()).float() for share in SHARES], 1) * explanation.present[:, None]
    said = box.averaged(DRAWS).each(batch, z, torch.Generator().manual_seed(seed))  # (B, S, C)
    wanted = explanation.classes_of(target)
    line = (said.argmax(-1) == wanted[:, None]).float() if label else of_class(said.movedim(1, 0), wanted).T  # (B, S)
    return torch.trapezoid(line, dx=SHARES[1] - SHARES[0], dim=1)


def last_first(order: Int[Tensor, "B d"], present: Tensor) -> Int[Tensor, "B d"]:
    """The same order backwards, with features that are not there at its end still."""
    back = order.flip(1)
    there = present.gather(1, back)
    return back.gather(1, (~there).to(torch.uint8).argsort(dim=1, stable=True))


def naopc(
    box: Masked, inputs: Any, explanation: Explanation, *, ks: Sequence[int], beam: int = 5, seed: int = 0
) -> Float[Tensor, " B"]:
    """The area over the curve of removing the first k features, scaled so that the worst order has 0 and the best 1.

    The best and the worst order are looked for with a beam search, which asks about beam * d inputs for each of the k steps of
    a row: for some rows of few features. Higher is better; above 1 or below 0 if the search missed the best or the worst.
    """
    batch = inputs if isinstance(inputs, Batch) else box.features.encode(inputs).to(torch.device("cpu"))
    wanted, steps = explanation.classes_of(None), max(ks)
    rng = torch.Generator().manual_seed(seed)
    order = explanation.order(by="needed")
    gone = torch.stack([first(order, explanation.present, k) for k in range(1, steps + 1)], 1)  # (B, K, d)
    whole = of_class(explanation.probs, wanted)
    said = box.averaged(DRAWS).each(batch, explanation.present[:, None].float() - gone, rng)  # (B, K, C)
    own = whole[:, None] - of_class(said.movedim(1, 0), wanted).T
    pick = torch.tensor(sorted(ks)) - 1
    bounds = []
    for sign in (1.0, -1.0):
        found = [searched(box, batch.cut(i, i + 1), explanation[i], steps, beam, sign, pick, rng) for i in range(len(batch))]
        bounds.append(torch.tensor(found))
    best, worst = bounds
    width = (best - worst).clamp_min(1e-9)
    return (own[:, pick].mean(1) - worst) / width


def searched(
    box: Masked, row: Batch, explanation: Explanation, steps: int, beam: int, sign: float, pick: Tensor, rng: torch.Generator
) -> float:
    """The largest (sign 1) or smallest (-1) mean drop over the picked steps that a beam search over orders finds."""
    wanted, present = int(explanation.classes_of(None)), explanation.present[0]
    whole, there = float(explanation.probs[0, wanted]), present.nonzero()[:, 0]
    paths, drops = [torch.zeros(len(present))], [torch.zeros(0)]
    for _ in range(min(steps, len(there))):
        tries = [(p, j) for p, gone in enumerate(paths) for j in there.tolist() if not gone[j]]
        gone = torch.stack([paths[p].scatter(0, torch.tensor([j]), 1.0) for p, j in tries])  # (T, d)
        _, different = torch.unique(gone, dim=0, return_inverse=True)
        said = box.averaged(DRAWS).each(row, (present.float() - gone)[None], rng)[0, :, wanted]  # (T,)
        lines = torch.stack([torch.cat([drops[p], (whole - said[t])[None]]) for t, (p, _) in enumerate(tries)])
        taken: dict[int, int] = {}
        for t in (sign * lines.mean(1)).argsort(descending=True).tolist():
            taken.setdefault(int(different[t]), t)
            if len(taken) == beam:
                break
        paths, drops = [gone[t] for t in taken.values()], [lines[t] for t in taken.values()]
    ends = [torch.cat([line, line[-1:].expand(steps - len(line))])[pick].mean() for line in drops]
    return float(max(ends) if sign > 0 else min(ends))
