"""Whether like inputs get like explanations: overlap with neighbours, and how far small changes carry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.errors import BadFeatures
from aimwise.explanation import Explanation
from aimwise.metrics.words import chosen_words, empty

Encoder = Callable[[list[str]], Any]
LEXICAL = SEMANTIC = 10
AT_ONCE = 1024  # texts whose neighbours are looked for together
SMALLEST = 1e-6


def neighbours(
    texts: Sequence[str],
    labels: Tensor,
    *,
    encoder: Encoder,
    lexical: int = LEXICAL,
    semantic: int = SEMANTIC,
) -> list[list[int]]:
    """For every text, the numbers of the texts of the same label that share most words with it, and of others nearest in meaning.

    Sharing is the words in common over all words of both; meaning is the cosine of what the encoder makes of the texts.
    """
    words = [frozenset(text.lower().split()) for text in texts]
    meaning = torch.nn.functional.normalize(torch.as_tensor(np.asarray(encoder(list(texts)))).float(), dim=1)  # (n, e)
    vocabulary = {word: i for i, word in enumerate(sorted(set().union(*words)))}
    bags = bag_matrix(words, vocabulary)  # scipy, (n, v)
    sizes = torch.tensor([len(w) for w in words], dtype=torch.float32)
    found: list[list[int]] = [[] for _ in texts]
    for label in sorted(set(labels.tolist())):
        group = (labels == label).nonzero()[:, 0]
        for part in torch.split(group, AT_ONCE):
            common = torch.from_numpy((bags[part.numpy()] @ bags[group.numpy()].T).toarray()).float()  # (p, g)
            shared = common / (sizes[part][:, None] + sizes[group] - common).clamp_min(1)
            own = part[:, None] == group
            near = shared.masked_fill(own, -1).argsort(dim=1, descending=True, stable=True)[:, :lexical]
            left = own.scatter(1, near, True)
            close = (meaning[part] @ meaning[group].T).masked_fill(left, -torch.inf)
            far = close.argsort(dim=1, descending=True, stable=True)[:, : max(min(semantic, len(group) - 1 - near.shape[1]), 0)]
            for row, first, second in zip(part.tolist(), near.tolist(), far.tolist(), strict=True):
                found[row] = [int(group[i]) for i in [*first, *second] if int(group[i]) != row]
    return found


def iou_stability(
    explanation: Explanation, near: Sequence[Sequence[int]], *, k: int, stop_words: Collection[str] = ()
) -> Float[Tensor, " B"]:
    """The mean overlap of a text's top k words with those of its neighbours, stop words left out. Higher is better."""
    return shared_words(chosen_words(explanation, k), near, stop_words)


def shared_words(chosen: Iterable[list[str]], near: Sequence[Sequence[int]], stop_words: Collection[str]) -> Float[Tensor, " B"]:
    """The mean overlap of each list of words with those of its neighbours, stop words left out."""
    tops = [{word for word in words if not empty(word, stop_words)} for words in chosen]
    values = []
    for own, others in zip(tops, near, strict=True):
        shares = [len(own & tops[i]) / max(len(own | tops[i]), 1) for i in others]
        values.append(sum(shares) / len(shares) if shares else torch.nan)
    return torch.tensor(values)


def bag_matrix(words: Sequence[Collection[str]], vocabulary: dict[str, int]) -> Any:
    """Which words each text has, as a sparse matrix of 0 and 1."""
    from scipy.sparse import csr_matrix

    ends = np.cumsum([0, *(len(w) for w in words)])
    places = np.array([vocabulary[word] for text in words for word in text], dtype=np.int64)
    return csr_matrix((np.ones(len(places), dtype=np.float32), places, ends), shape=(len(words), len(vocabulary)))


def sensitivity(
    explain: Callable[[Any], Explanation],
    inputs: np.ndarray | Tensor,
    *,
    radius: float = 0.02,
    tries: int = 5,
    output: bool = False,
    seed: int = 0,
) -> Float[Tensor, " B"]:
    """The largest relative change of the weights over small random changes of the inputs, each over the relative change that
    caused it: of the input (RIS), or of the black box's log-probabilities if `output` (ROS). Lower is better.

    radius: the change's size as a share of each column's standard deviation.
    """
    values = torch.as_tensor(inputs) if isinstance(inputs, Tensor | np.ndarray) else None
    if values is None or not values.is_floating_point():
        raise BadFeatures("Small changes need inputs of floats: a float array or tensor. Leave this metric out.")
    rng = torch.Generator().manual_seed(seed)
    before = explain(inputs)
    spread = values.double().std(0, correction=0)
    worst = torch.zeros(len(values))
    for _ in range(tries):
        moved = values + (radius * spread * torch.randn(values.shape, generator=rng, dtype=torch.double)).to(values.dtype)
        after = explain(moved if isinstance(inputs, Tensor) else moved.numpy())
        change = relative(before.towards(), after.towards(before.prediction))
        cause = (
            relative(before.probs.clamp_min(SMALLEST).log(), after.probs.clamp_min(SMALLEST).log())
            if output
            else relative(values.flatten(1), moved.flatten(1))
        )
        worst = torch.maximum(worst, change / cause.clamp_min(SMALLEST))
    return worst


def relative(before: Tensor, after: Tensor) -> Float[Tensor, " B"]:
    """The size of a change, row by row, over the size of what was there before."""
    sizes = [torch.linalg.vector_norm(part.double(), dim=1) for part in (after - before, before)]
    share: Tensor = sizes[0] / sizes[1].clamp_min(SMALLEST)
    return share.float()
