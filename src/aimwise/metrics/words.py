"""What kind of words an explanation chooses: how many say nothing, and how many different things they say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from collections.abc import Set as AbstractSet

import torch
from jaxtyping import Float
from torch import Tensor

from aimwise.errors import BadFeatures
from aimwise.explanation import Explanation, Target

Related = Callable[[str], AbstractSet[Hashable]]


def purity(
    explanation: Explanation, *, k: int, stop_words: Collection[str], distinct: bool = False, target: Target = None
) -> Float[Tensor, " B"]:
    """The share of stop words and punctuation among the top k words, each counted once if `distinct`. Lower is better."""
    return empty_share(chosen_words(explanation, k, target), stop_words, distinct=distinct)


def empty_share(chosen: Iterable[list[str]], stop_words: Collection[str], *, distinct: bool = False) -> Float[Tensor, " B"]:
    """The share of stop words and punctuation in each list of words."""
    shares = []
    for words in chosen:
        counted = list(dict.fromkeys(words)) if distinct else words
        shares.append(sum(empty(word, stop_words) for word in counted) / max(len(counted), 1))
    return torch.tensor(shares)


def brevity(explanation: Explanation, *, k: int, related: Related, target: Target = None) -> Float[Tensor, " B"]:
    """How many clusters of equal or related words the top k words form. Lower is better.

    related: the senses that a word has or is near to; two words are related if they share one, and clusters are what is
    connected that way.
    """
    return cluster_counts(chosen_words(explanation, k, target), related)


def brevity_released(explanation: Explanation, *, k: int, related: Related, target: Target = None) -> Float[Tensor, " B"]:
    """Brevity as the authors' code counts it: every word that has a sense at all is related to every other such word."""
    return brevity(explanation, k=k, related=as_released(related), target=target)


def as_released(related: Related) -> Related:
    """Relations in which every word that has a sense is related to every other such word."""

    def linked(word: str) -> AbstractSet[Hashable]:
        found = related(word)
        return found | {"similar"} if found else found

    return linked


def cluster_counts(chosen: Iterable[list[str]], related: Related) -> Float[Tensor, " B"]:
    """How many clusters of equal or related words each list of words forms."""
    known: dict[str, AbstractSet[Hashable]] = {}
    counts = []
    for words in chosen:
        for word in words:
            if word not in known:
                known[word] = related(word) | {word}
        counts.append(clusters([known[word] for word in dict.fromkeys(words)]))
    return torch.tensor(counts, dtype=torch.float32)


def clusters(sets: Iterable[AbstractSet[Hashable]]) -> int:
    """How many groups there are when sets that share an element belong together."""
    groups: list[set[Hashable]] = []
    for one in sets:
        joined = set(one)
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return len(groups)


def chosen_words(explanation: Explanation, k: int, target: Target = None) -> Iterator[list[str]]:
    """The top k words of every text in lower case, the strongest first."""
    if explanation.names is not None:
        raise BadFeatures("This metric is about words; the features here are columns or parts of images. Leave it out.")
    order = explanation.order(target)[:, :k]
    there = explanation.present.gather(1, order).tolist()
    for values, places, real in zip(explanation.values, order.tolist(), there, strict=True):
        yield [str(values[i]).lower() for i, is_there in zip(places, real, strict=True) if is_there]


def empty(word: str, stop_words: Collection[str]) -> bool:
    """Whether a word is a stop word or has neither letter nor digit."""
    return word in stop_words or not any(c.isalnum() for c in word)
