"""Any function is a black box: here one of texts that fails now and then, and is asked again."""

import numpy as np

import aimwise

asked = {"calls": 0}


def sentiment(texts):
    """Texts in, probabilities out. It might as well send them to a service."""
    asked["calls"] += 1
    if asked["calls"] % 4 == 0:
        raise TimeoutError("busy")
    worth = {"good": 2, "great": 3, "bad": -2, "awful": -3}
    score = np.array([sum(worth.get(word, 0) for word in text.lower().split()) for text in texts])
    positive = 1 / (1 + np.exp(-score))
    return np.stack([1 - positive, positive], 1)


rng = np.random.default_rng(0)
words = ["good", "great", "bad", "awful", "the", "a", "film", "was", "cast", "and", "really"]
texts = [" ".join(rng.choice(words, 8)) for _ in range(300)]

explainer = aimwise.AIM(epochs=3).fit(sentiment, texts, class_names=["negative", "positive"], retries=2)
print("calls failed and were made again:", asked["calls"] > 4)
for word, weight, place in explainer.explain(["A really great film and the cast was bad"])[0].top(
    2, target="positive", by="size"
):
    print(f"{word} at {place}: {weight:+.1f}")
