"""A service in a thread with an explainer of each kind, for the tests of the service and of its page."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pandas as pd

import aimwise
from aimwise.explainers import METHODS
from aimwise.web import common
from aimwise.web.app import Settings, create
from command_line import texts as news_texts

EVIL = "<script>document.title='run'</script>"
WORDS = {"goal": 0, "match": 0, "vote": 1, "law": 1}


class News:
    """Counts words; the word "poison" is too much for it, "slow" makes it slow, and the sizes of its batches are noted."""

    classes_ = np.array(["sports", EVIL])

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.delay = 0.0

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        self.sizes.append(len(texts))
        if any("poison" in text for text in texts):
            raise ValueError("poison")
        time.sleep(self.delay + (0.5 if any("slow" in text for text in texts) else 0.0))
        scores = np.zeros((len(texts), 2))
        for i, text in enumerate(texts):
            for word in text.split():
                if word in WORDS:
                    scores[i, WORDS[word]] += 2
        return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


def rows_model(frame: pd.DataFrame) -> np.ndarray:
    score = frame["age"].to_numpy(float) / 50 + (frame[EVIL] == "cook").to_numpy(float)
    return np.stack([1 / (1 + np.exp(score)), 1 / (1 + np.exp(-score))], 1)


def image_model(images: np.ndarray) -> np.ndarray:
    bright = np.asarray(images, float).reshape(len(images), -1).mean(1) / 255
    return np.stack([1 - bright, bright], 1)


def array_model(rows: np.ndarray) -> np.ndarray:
    score = np.nan_to_num(rows) @ np.array([1.0, -1.0, 0.5])
    return np.stack([1 / (1 + np.exp(score)), 1 / (1 + np.exp(-score))], 1)


def people(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    grades = pd.Categorical(rng.choice(["low", "high"], n), categories=["low", "high"], ordered=True)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            EVIL: rng.choice(["cook", "nurse"], n),
            "smoker": rng.random(n) > 0.5,
            "income": rng.normal(3e4, 9e3, n),
            "since": days,
            "grade": grades,
        }
    )


def explainers() -> dict[str, Any]:
    """An explainer of each kind, of a method that learns nothing."""
    occlusion = METHODS["occlusion"]
    texts = [*news_texts(30, 0)["body"].tolist(), "goal match vote law"]
    pictures = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3)).astype(np.uint8)
    return {
        "news": occlusion().fit(News(), texts),
        "people": occlusion().fit(rows_model, people(), class_names=["no", "yes"]),
        "array": occlusion().fit(array_model, np.random.default_rng(0).normal(size=(30, 3))),
        "pictures": occlusion().fit(image_model, pictures, features=aimwise.Patches(4), class_names=["dark", "bright"]),
    }


@contextmanager
def served(made: dict[str, Any], settings: Settings | None = None) -> Iterator[httpx.Client]:
    """A running service, and a client for it."""
    listening = common.listen("127.0.0.1", 0)
    server = common.server(create(made, settings=settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with httpx.Client(base_url=common.address(listening), timeout=60, trust_env=False) as client:
            client.get("/healthz")
            yield client
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def explain(client: httpx.Client, **body: Any) -> Any:
    answer = client.post("/v1/explain", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def png(picture: np.ndarray, form: str = "PNG") -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, form)
    return base64.b64encode(file.getvalue()).decode()
