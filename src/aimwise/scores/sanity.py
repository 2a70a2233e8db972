"""Whether explanations depend on the model, on the class and on nothing else: checks that a good method passes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aimwise.blackbox import FunctionBox, TextBox, TorchBox, as_blackbox
from aimwise.blackbox.base import BlackBox
from aimwise.errors import BadSetting, Collapsed
from aimwise.explainers.base import CHECK_DRAWS, Explainer, overlap
from aimwise.explanation import Explanation
from aimwise.masked import Masked
from aimwise.metrics.agreement import overlap as top_overlap
from aimwise.metrics.agreement import pairwise_iou, rank_correlation
from aimwise.nn.build import family
from aimwise.nn.sampling import shared_masks

SHARP = 2.0  # how far random answers are from even


@dataclass(frozen=True)
class Sanity:
    """What an explainer did in each check; overlaps are of the top k features, intersection over union.

    NaN is what was not asked for, or could not be measured since that fit was refused (`collapsed` has its name).
    """

    k: int
    chance: float
    """The overlap of two random orders on these inputs."""
    random_model: float
    """Overlap with the explanations of the model with random weights, or of a random network: near chance is right."""
    random_model_ranks: float
    """Spearman's correlation with those: near 0 is right."""
    random_labels: float
    """Overlap with the explanations of a model that was trained on shuffled labels: near chance is right."""
    seeds: float
    """Overlap between two training seeds: near 1 is right."""
    classes: float
    """Overlap between the explanations of two classes of one input: low is right."""
    same: bool
    """Whether explaining twice gives the same weights."""
    collapsed: tuple[str, ...] = ()
    """The checks whose fit was refused as collapsed."""


def sanity(explainer: Explainer, train: Any, inputs: Any, *, k: int = 5, seed: int = 0, mistaught: Any = None) -> Sanity:
    """Fit an explainer's method again on a randomised model and with another seed, and compare what they say of the inputs.

    mistaught: a model like the explained one that was trained on shuffled labels, to be explained too: what it learned by heart
    is not what the explained one knows, so that the explanations must differ.
    """
    box = explainer._fitted()
    own = explainer.explain(inputs)
    names = None if box.blackbox.class_names is not None else explainer.classes_
    only, lost = own.only is not None, []

    def again(check: str, model: BlackBox, seed: int) -> Explanation | None:
        new = type(explainer)(**explainer.get_params())
        try:
            made = new.fit(model, train, features=box.features, class_names=names, seed=seed).explain(inputs)
        except Collapsed:
            lost.append(check)
            return None
        return with_weights(own, made.towards()) if only else made

    def alike(other: Explanation | None) -> float:
        return float("nan") if other is None else float(top_overlap(own, other, k=k, target=own.prediction).mean())

    another = explainer.seed_ + 1  # another start as well
    spoiled = again("random_model", randomised(box, train, len(explainer.classes_), seed), another)
    misled = None if mistaught is None else again("random_labels", like_classes(explainer, mistaught), another)
    other = again("seeds", box.blackbox, another)
    ranks = None if spoiled is None else rank_correlation(own, spoiled, target=own.prediction)
    drawn = np.random.default_rng(seed).random((2, *own.present.shape))
    chance = [with_weights(own, torch.from_numpy(noise).float()) for noise in drawn]
    return Sanity(
        k=k,
        chance=float(top_overlap(*chance, k=k).mean()),
        random_model=alike(spoiled),
        random_model_ranks=float("nan") if ranks is None else float(ranks.nanmean()),
        random_labels=alike(misled),
        seeds=alike(other),
        classes=float("nan") if only else float(pairwise_iou(own, k=k).mean()),
        same=bool(torch.equal(own.weights, explainer.explain(inputs).weights)),
        collapsed=tuple(lost),
    )


def like_classes(explainer: Explainer, model: Any) -> BlackBox:
    """Another model with the classes of the explained one."""
    found = as_blackbox(model).class_names
    if found is not None and not explainer.named_ and found != explainer.classes_:
        raise BadSetting(
            f"The mistaught model has the classes {', '.join(found)}; wanted those of the explained one, "
            f"{', '.join(explainer.classes_)}. Train it on the same labels, shuffled."
        )
    return as_blackbox(model, class_names=explainer.classes_)


def randomised(box: Masked, train: Any, classes: int, seed: int) -> BlackBox:
    """The same kind of model with new random weights; for a model that cannot be opened, a random network over its inputs."""
    model = box.blackbox
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        if isinstance(model, TorchBox | TextBox):
            new = copy.copy(model)
            new.module = copy.deepcopy(model.module)
            for weights in new.module.parameters():
                spread = weights.std() if weights.numel() > 1 else weights.abs().mean()
                weights.copy_(torch.randn(weights.shape).to(weights) * spread + weights.mean())
            return new
        net = family(box.features.kind, "default").approximator(box.features.layout, classes).eval()

    @torch.no_grad()
    def scores(inputs: Any) -> Tensor:
        batch = box.features.encode(inputs)
        whole: Tensor = net(batch.x, box.features.spread(batch, batch.present.float()))
        return whole

    usual = scores(train)
    mean, spread = usual.mean(0), usual.std(0).clamp_min(1e-6)
    return FunctionBox(lambda inputs: (scores(inputs) - mean) / spread * SHARP, output="logits", class_names=model.class_names)


def with_weights(like: Explanation, weights: Tensor) -> Explanation:
    """An explanation with these weights (B, d) for the predicted class, and none for the others."""
    one = nn.functional.one_hot(like.prediction, len(like.classes)).float()  # (B, C)
    return Explanation(
        weights=weights[..., None] * one[:, None],
        probs=like.probs,
        base=like.base,
        present=like.present,
        names=like.names,
        values=like.values,
        classes=like.classes,
        method=like.method,
    )


@dataclass(frozen=True)
class Gap:
    """How far one pass is from explanations refined for each row: agreement with the black box on fresh masks, 1 is full."""

    one_pass: float
    refined: float
    budget: int

    @property
    def gap(self) -> float:
        """What refining added."""
        return self.refined - self.one_pass


def amortization_gap(explainer: Explainer, inputs: Any, *, budget: int = 512, masks: int = 64, seed: int = 0) -> Gap:
    """Measure what `explainer.refine` adds on masks that neither the fit nor the refinement has seen."""
    explanation = explainer.explain(inputs)
    better = explainer.refine(explanation, budget=budget)
    box = explainer._fitted().averaged(CHECK_DRAWS)
    batch = box.features.encode(inputs).to(torch.device("cpu"))
    z = shared_masks(batch.present, masks, explainer.seed_ + 1000 + seed)
    said = box.each(batch, z, torch.Generator().manual_seed(seed))
    one_pass, refined = (float(overlap(each.additive(z), said).mean()) for each in (explanation, better))
    return Gap(one_pass, refined, budget)
