"""A simulated reader: a bag-of-words classifier that sees the key words alone. It is no human, only a cheap stand-in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aimwise.human.survey import NEUTRAL

FEWEST = 50  # texts to learn from
UNSURE = 0.2  # where the two likeliest classes are closer than this, the reader cannot decide
CALLED = "simulated reader, not human"


@dataclass(frozen=True, eq=False)
class Reader:
    """Words counted once each and a logistic regression over them."""

    words: Any
    model: Any
    classes: tuple[int, ...]

    def answers(self, shown: Sequence[Sequence[str]]) -> list[int]:
        """The class that each list of words speaks for, or `NEUTRAL`."""
        probs = self.model.predict_proba(self.words.transform([" ".join(words) for words in shown]))
        best = np.sort(probs, axis=1)
        sure = best[:, -1] - best[:, -2] >= UNSURE
        return [self.classes[c] if fine else NEUTRAL for c, fine in zip(probs.argmax(1).tolist(), sure.tolist(), strict=True)]


def taught(texts: Sequence[str], labels: Sequence[int]) -> Reader | None:
    """A reader that learned from texts and their classes; None where they are too few or all of one class."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    if len(texts) < FEWEST or len(set(labels)) < 2:
        return None
    words = CountVectorizer(binary=True, token_pattern=r"(?u)\b\w+\b")
    model = LogisticRegression(C=0.1, max_iter=1000)
    model.fit(words.fit_transform(texts), labels)
    return Reader(words, model, tuple(int(c) for c in model.classes_))
