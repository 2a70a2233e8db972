"""Whether explanations depend on the model, on the class and on nothing else: checks that a good method passes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aimwise.blackbox import FunctionBox, TextBox, TorchBox
from aimwise.blackbox.base import BlackBox
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
    """What an explainer did in each check; overlaps are of the top k features, intersection over union."""

    k: int
    chance: float
    """The overlap of two random orders on these inputs."""
    random_model: float
    """Overlap with the explanations of the model with random weights, or of a random network: near chance is right."""
    random_model_ranks: float
    """Spearman's correlation with those: near 0 is right."""
    seeds: float
    """Overlap between two training seeds: near 1 is right."""
    classes: float
    """Overlap between the explanations of two classes of one input: low is right."""
    same: bool
    """Whether explaining twice gives the same weights."""


def sanity(explainer: Explainer, train: Any, inputs: Any, *, k: int = 5, seed: int = 0) -> Sanity:
    """Fit an explainer's method again on a randomised model and with another seed, and compare what they say of the inputs."""
    box = explainer._fitted()
    own = explainer.explain(inputs)
    names = None if box.blackbox.class_names is not None else explainer.classes_

    def again(model: BlackBox, seed: int) -> Explanation:
        new = type(explainer)(**explainer.get_params())
        return new.fit(model, train, features=box.features, class_names=names, seed=seed).explain(inputs)

    spoiled = again(randomised(box, train, len(explainer.classes_), seed), explainer.seed_ + 1)  # another start as well
    other = again(box.blackbox, explainer.seed_ + 1)
    twice = explainer.explain(inputs)
    target = own.prediction
    only = own.only is not None
    drawn = np.random.default_rng(seed).random((2, *own.present.shape))
    chance = [with_weights(own, torch.from_numpy(noise).float()) for noise in drawn]
    spoiled, other = (one if one.only is None else with_weights(own, one.towards()) for one in (spoiled, other))
    ranks = rank_correlation(own, spoiled, target=target)
    return Sanity(
        k=k,
        chance=float(top_overlap(*chance, k=k).mean()),
        random_model=float(top_overlap(own, spoiled, k=k, target=target).mean()),
        random_model_ranks=float(ranks.nanmean()),
        seeds=float(top_overlap(own, other, k=k, target=target).mean()),
        classes=float("nan") if only else float(pairwise_iou(own, k=k).mean()),
        same=bool(torch.equal(own.weights, twice.weights)),
    )


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
