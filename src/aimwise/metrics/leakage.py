"""Judges that an explanation cannot fool by telling the class through which features it picks.

A selector trained together with its predictor can do just that. So predictions from chosen features are judged here by a network
that was trained on random masks and has never seen an explanation (EVAL-X), and what the mask alone gives away is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aimwise.batch import Batch
from aimwise.device import resolve_device, seeded
from aimwise.explanation import Explanation
from aimwise.masked import Masked
from aimwise.metrics.ablation import Ablation, first
from aimwise.nn.build import family
from aimwise.nn.losses import cross_entropy
from aimwise.nn.sampling import uniform_masks
from aimwise.training import Plan, train

PLAN = Plan(epochs=20, batch_size=64, lr=2e-3, schedule="cosine", average=0.99, patience=6, least_rows=4096, most_rows=16_384)
HELD = 0.1
AT_ONCE = 2048
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Predictor:
    """A network that predicts the black box's answer to a whole input from some of its features."""

    net: nn.Module
    agreement: float
    """On held-out inputs, how often it predicts the class that the black box does."""

    @torch.no_grad()
    def __call__(self, box: Masked, batch: Batch, z: Float[Tensor, "B d"]) -> Float[Tensor, "B C"]:
        """The probabilities it gives to inputs of which only the features in z are known."""
        device, parts = next(self.net.parameters()).device, []
        for rows in torch.split(torch.arange(len(batch)), AT_ONCE):
            part = batch.pick(rows).to(device)
            gate = box.features.spread(part, z[rows].to(device) * part.present)
            parts.append(self.net(part.x, gate).softmax(-1).cpu())
        return torch.cat(parts)

    def ablate(self, box: Masked, inputs: Any, explanation: Explanation, *, k: int) -> Ablation:
        """What every removal metric reads, said by this network instead of by the black box."""
        batch, present = encoded(box, inputs), explanation.present.float()
        z = first(explanation.order(), explanation.present, k)
        whole, kept, rest = (self(box, batch, some) for some in (present, z, present - z))
        return Ablation(whole, kept[None], rest[None], explanation.prediction, k)


def eval_x(box: Masked, inputs: Any, probs: Float[Tensor, "N C"], *, seed: int = 0, device: str = "auto") -> Predictor:
    """A judge trained on uniformly random masks of these inputs, the black box's probabilities as its targets (EVAL-X).

    The inputs should be those the explainers were fitted on, or others like them, not those that are judged.
    """

    def random(batch: Batch, rows: Tensor, rng: torch.Generator) -> Tensor:
        return uniform_masks(batch.present, 1, rng, noise=box.features.noise, paired=False)[:, 0]

    return trained(box, encoded(box, inputs), probs, random, seed=seed, device=device)


def post_hoc(box: Masked, inputs: Any, explanation: Explanation, *, k: int, seed: int = 0, device: str = "auto") -> Predictor:
    """A predictor trained on the very features that an explanation chose: what L2X and others are judged by in their papers.

    It can be fooled: a choice that tells the class by its places is learned like any other.
    """
    chosen = first(explanation.order(), explanation.present, k)

    def own(batch: Batch, rows: Tensor, rng: torch.Generator) -> Tensor:
        return chosen[rows][:, : batch.present.shape[1]].to(batch.present.device)

    return trained(box, encoded(box, inputs), explanation.probs, own, seed=seed, device=device)


def judged(predictor: Predictor, box: Masked, inputs: Any, explanation: Explanation, *, k: int) -> Float[Tensor, " B"]:
    """1 where the predictor, told the top k features alone, predicts what the black box does of the whole. Higher is better."""
    z = first(explanation.order(), explanation.present, k)
    return (predictor(box, encoded(box, inputs), z).argmax(-1) == explanation.prediction).float()


def encoding_gain(explanation: Explanation, *, k: int, seed: int = 0) -> Float[Tensor, " B"]:
    """How much better the predicted class is guessed from which features were chosen than from how frequent it is.

    Trees of scikit-learn learn from the mask alone, not from any value, and are asked about rows they have not seen; for each
    row 1 if the guess is right, less 1 if the most frequent class is. About 0 is good: the mask gives nothing away.
    """
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold

    mask = first(explanation.order(), explanation.present, k).numpy().astype(np.float32)
    label = explanation.prediction.numpy()
    found, counts = np.unique(label, return_counts=True)
    frequent = (label == found[counts.argmax()]).astype(float)
    rare = np.isin(label, found[counts < FOLDS])  # too few to learn from
    right = frequent.copy()
    usual = np.flatnonzero(~rare)
    if len(np.unique(label[usual])) > 1:
        for fit, held in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(mask[usual], label[usual]):
            forest = RandomForestClassifier(100, min_samples_leaf=2, random_state=seed)
            guess = forest.fit(mask[usual[fit]], label[usual[fit]]).predict(mask[usual[held]])
            right[usual[held]] = guess == label[usual[held]]
    return torch.from_numpy(right - frequent).float()


Masks = Callable[[Batch, Tensor, torch.Generator], Tensor]


def trained(box: Masked, data: Batch, probs: Tensor, masks: Masks, *, seed: int, device: str) -> Predictor:
    """A predictor trained on inputs under such masks."""
    place = resolve_device(device)
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(data), generator=rng)
    held, rows = order[: max(1, round(HELD * len(data)))], order[max(1, round(HELD * len(data))) :]
    features = box.features
    with seeded(seed, place):
        net = family(features.kind, "default").approximator(features.layout, probs.shape[1]).to(place)

        def guessed(judge: nn.Module, index: Tensor, rng: torch.Generator) -> Tensor:
            batch = features.trim(data.pick(index)).to(place)
            gate = features.spread(batch, masks(batch, index, rng) * batch.present)
            answer: Tensor = judge(batch.x, gate)
            return answer

        def losses(order: Tensor) -> Iterator[Tensor]:
            sizes = data.present.sum(1)
            for ahead in torch.split(order, PLAN.batch_size * 16):
                ahead = ahead[sizes[ahead].argsort(stable=True)]
                for index in torch.split(ahead, PLAN.batch_size):
                    yield cross_entropy(probs[index].to(place), guessed(net, index, rng))

        def score(judge: nn.Module) -> dict[str, float]:
            again = torch.Generator().manual_seed(seed + 1)
            with torch.no_grad():
                parts = [guessed(judge, index, again).argmax(-1).cpu() for index in torch.split(held, 256)]
            return {"agreement": float((torch.cat(parts) == probs[held].argmax(-1)).double().mean())}

        run = train(net, losses, score, rows, PLAN, rng, called="agreement")
    return Predictor(net, run.history[run.best]["agreement"])


def encoded(box: Masked, inputs: Any) -> Batch:
    """Inputs as a batch, if they are not one already."""
    return inputs if isinstance(inputs, Batch) else box.features.encode(inputs).to(torch.device("cpu"))
