"""The service: what it answers, what it refuses, how it batches, and how it stops."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

import aimwise
from aimwise.cli import main
from aimwise.errors import BadSetting, NoAnswer
from aimwise.explainers import METHODS
from aimwise.web import common
from aimwise.web.app import Settings, create
from aimwise.web.batching import Batcher, in_halves
from command_line import filled
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


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return explainers()


@pytest.fixture(scope="module")
def client(made: dict[str, Any]) -> Iterator[httpx.Client]:
    with served(made, Settings(max_body=1 << 20, max_items=64)) as found:
        yield found


def explain(client: httpx.Client, **body: Any) -> Any:
    answer = client.post("/v1/explain", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def png(picture: np.ndarray, form: str = "PNG") -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, form)
    return base64.b64encode(file.getvalue()).decode()


def test_the_answer_is_that_of_the_explainer(client: httpx.Client, made: dict[str, Any]) -> None:
    texts = ["the match had a goal", "a vote on the law", ""]
    said = explain(client, explainer="news", texts=texts, top=2)
    expected = made["news"].explain(texts)
    assert (said["classes"], said["method"]) == (["sports", EVIL], "occlusion")
    for i, result in enumerate(said["results"]):
        assert result["probabilities"] == pytest.approx(expected.probs[i].tolist(), abs=1e-5)
        for c, evidence in enumerate(result["evidence"]):
            best = [] if not texts[i] else expected[i].top(2, target=c)
            found = [(f["feature"], f["weight"], (f["start"], f["end"])) for f in evidence["features"]]
            assert [(n, p) for n, _, p in found] == [(n, p) for n, _, p in best]
            assert [w for _, w, _ in found] == pytest.approx([w for _, w, _ in best], abs=1e-4)
    only = explain(client, explainer="news", texts=texts[:1], classes=[EVIL, 0], by="size")["results"][0]["evidence"]
    assert [each["class"] for each in only] == [EVIL, "sports"]


def test_asking_is_what_explain_tries(client: httpx.Client, made: dict[str, Any]) -> None:
    text = "the match had a goal and a law"
    tried = made["news"].explain([text], top=2)
    keep = [
        f["index"]
        for f in explain(client, explainer="news", texts=[text], classes=[0], top=2)["results"][0]["evidence"][0]["features"]
    ]
    said = client.post("/v1/ask", json={"explainer": "news", "texts": [text], "keep": [keep]}).json()["results"][0]
    assert said["kept"] == pytest.approx(tried.trial.kept[0].tolist(), abs=1e-5)
    assert said["rest"] == pytest.approx(tried.trial.rest[0].tolist(), abs=1e-5)
    wrong = client.post("/v1/ask", json={"explainer": "news", "texts": [text], "keep": [[99]]})
    assert (wrong.status_code, wrong.json()["error"]) == (422, "There is no feature 99; this input has 8, counted from 0.")


def test_rows_come_as_objects_and_lists(client: httpx.Client, made: dict[str, Any]) -> None:
    row = {"age": 40, EVIL: "cook", "smoker": True, "income": None, "since": "2021-02-03", "grade": "low"}
    one, two = (explain(client, explainer="people", rows=[r])["results"][0] for r in (row, list(row.values())))
    assert one == two
    frame = people(2).head(1).assign(age=40, smoker=True, income=np.nan, since=pd.Timestamp("2021-02-03"), grade="low")
    frame[EVIL] = "cook"
    assert one["probabilities"] == pytest.approx(made["people"].explain(frame).probs[0].tolist(), abs=1e-5)
    assert [f["feature"] for f in one["evidence"][0]["features"]].count(EVIL) == 1
    assert explain(client, explainer="array", rows=[[1, 2.5, None], [0, 0, 0]])["results"][1]["prediction"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"age": 1.5}, "Column 'age' is 1.5, wanted a whole number."),
        ({"age": "x"}, "Column 'age' is 'x', wanted a number."),
        ({"age": 10**30}, "Column 'age' is a very large number, wanted a number."),
        ({"smoker": "yes"}, "Column 'smoker' is 'yes', wanted true or false."),
        ({"since": "soon"}, "Column 'since' is 'soon', wanted a date such as 2024-05-31"),
        ({"grade": [1]}, "Column 'grade' is a list of 1, wanted a string"),
        ({"more": 1}, "missing: none; not known: 'more'"),
    ],
)
def test_a_wrong_cell_is_named(client: httpx.Client, change: dict[str, Any], said: str) -> None:
    row = {"age": 40, EVIL: "cook", "smoker": True, "income": 1.0, "since": "2021-02-03", "grade": "low"}
    answer = client.post("/v1/explain", json={"explainer": "people", "rows": [row, row | change]})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("rows[1]: ")
    assert said in answer.json()["error"]


def test_images_come_as_files_and_arrays(client: httpx.Client, made: dict[str, Any]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    forms = [png(picture), "data:image/png;base64," + png(picture), picture.tolist()]
    results = explain(client, explainer="pictures", images=forms)["results"]
    assert results[0] == results[1] == results[2]
    assert results[0]["probabilities"] == pytest.approx(made["pictures"].explain(picture[None]).probs[0].tolist(), abs=1e-5)
    large = np.full((64, 32, 3), 200, dtype=np.uint8)
    bright = explain(client, explainer="pictures", images=[png(large), png(large, "JPEG"), png(large[..., 0])])["results"]
    assert [r["probabilities"][1] for r in bright] == pytest.approx([200 / 255] * 3, abs=0.02)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def huge(side: int) -> str:
    """A small PNG file of so many pixels a side: an image whose zeros pack well, the header of which is all that may be read."""
    lines = zlib.compress(b"\0" * 1_000_000, 9)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", lines) + chunk(b"IEND", b"")).decode()


def bomb() -> str:
    """A PNG file whose text unpacks to 200 MB."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"a" * 200_000_000, 9))
    made = file.getvalue()
    return base64.b64encode(made[:33] + text + made[33:]).decode()


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("pictures", {"images": [huge(50_000)]}, 422, "wanted at most 16,777,216 in all"),
    ("pictures", {"images": [huge(5_000)]}, 422, "Got an image of 5,000 x 5,000 pixels"),
    ("pictures", {"images": ["no base64!"]}, 422, "not base64"),
    ("pictures", {"images": [base64.b64encode(b"GIF89a").decode()]}, 422, "not a PNG or JPEG"),
    ("pictures", {"images": [[[1, 2], [3]]]}, 422, "lists of different lengths"),
    ("pictures", {"images": [np.full((8, 8, 3), 0.5).tolist()]}, 422, "wanted whole numbers"),
    ("pictures", {"images": [np.full((8, 8, 3), 300).tolist()]}, 422, "outside 0 to 255"),
    ("news", {"texts": ["a"] * 10_000}, 413, "Got 10,000 items, wanted at most 64"),
    ("news", {"texts": ["a" * 200_001]}, 422, "texts[0]: Got a text of 200,001 characters"),
    ("news", {"texts": []}, 422, "Got no texts"),
    ("news", {"rows": [{}]}, 422, "takes texts, got rows"),
    ("news", {}, 422, "takes texts, got no inputs"),
    ("news", {"texts": [1]}, 422, "texts.0: Input should be a valid string"),
    ("news", {"texts": ["a"], "classes": ["tech"]}, 422, "There is no class 'tech'"),
    ("news", {"texts": ["a"], "classes": [5]}, 422, "There is no class 5"),
    ("news", {"texts": ["a"], "top": -1}, 422, "top: Input should be greater than or equal to 0"),
    ("news", {"texts": ["a"], "colour": 1}, 422, "colour: Extra inputs are not permitted"),
    ("nows", {"texts": ["a"]}, 422, "There is no explainer 'nows'; known: news, people, array, pictures. Did you mean 'news'?"),
]


@pytest.mark.parametrize(("name", "body", "status", "said"), REFUSED)
def test_what_is_wrong_is_refused_and_said(client: httpx.Client, name: str, body: dict[str, Any], status: int, said: str) -> None:
    answer = client.post("/v1/explain", json={"explainer": name, **body})
    assert (answer.status_code, set(answer.json())) == (status, {"error", "kind"})
    assert said in answer.json()["error"]
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_bomb_is_refused_before_it_goes_off(client: httpx.Client) -> None:
    before = resident()
    answer = client.post("/v1/explain", json={"explainer": "pictures", "images": [bomb()]})
    assert answer.status_code == 422
    assert "not a PNG or JPEG image that can be read" in answer.json()["error"]
    assert resident() - before < 100  # of the 200 MB
    assert client.get("/healthz").status_code == 200


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize("told", [True, False])
def test_a_body_of_100_mb_is_refused(client: httpx.Client, told: bool) -> None:
    part = b"a" * (1 << 20)
    before = resident()

    def parts() -> Iterator[bytes]:
        yield from (part for _ in range(100))

    headers = {"content-type": "application/json"} | ({"content-length": str(100 << 20)} if told else {})
    answer = client.post("/v1/explain", content=parts(), headers=headers)
    assert (answer.status_code, answer.json()["kind"]) == (413, "TooLarge")
    assert "wanted at most 1,048,576" in answer.json()["error"]
    assert resident() - before < 50
    assert explain(client, explainer="news", texts=["goal"])["results"][0]["prediction"] == "sports"


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b'{"texts": ["\xff\xfe"], "explainer": "news"}', 422, "The body is not JSON"),
        (b'{"texts": ["\\ud800"], "explainer": "news"}', 422, "The body is not JSON"),
        (b'{"texts": ', 422, "The body is not JSON"),
        (b"[" * 100_000, 422, "The body is not JSON"),
        (b"", 422, "The body is not JSON"),
        (b"[1]", 422, "Input should be an object"),
    ],
)
def test_what_is_not_json_is_refused(client: httpx.Client, content: bytes, status: int, said: str) -> None:
    answer = client.post("/v1/explain", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text
    plain = client.post("/v1/explain", content=b'{"texts": ["a"]}', headers={"content-type": "text/plain"})
    assert (plain.status_code, plain.json()["kind"]) == (415, "WrongType")  # a form of another site cannot send JSON


def test_a_token_is_asked_for(made: dict[str, Any]) -> None:
    with served({"news": made["news"]}, Settings(token="secret")) as client:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Basic secret"},
            {"authorization": "Bearer sécret"},
        ):
            sent = {name: value.encode() for name, value in headers.items()}
            for path in ("/v1/explainers", "/metrics", "/nowhere"):
                answer = client.get(path, headers=sent)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            answer = client.post("/v1/explain", json={"texts": ["goal"]}, headers=sent)
            assert (answer.status_code, answer.json()["kind"]) == (401, "WrongToken")
        right = {"authorization": "Bearer secret"}
        assert client.post("/v1/explain", json={"texts": ["goal"]}, headers=right).status_code == 200
        assert all(client.get(path).status_code == 200 for path in ("/", "/healthz", "/docs", "/openapi.json"))


def test_another_name_for_this_machine_is_refused(client: httpx.Client) -> None:
    answer = client.get("/v1/explainers", headers={"host": "evil.example:80"})
    assert (answer.status_code, answer.json()["kind"]) == (421, "WrongHost")
    assert client.get("/v1/explainers", headers={"host": "localhost:1"}).status_code == 200


def test_every_answer_has_strict_headers(client: httpx.Client) -> None:
    for path in ("/", "/try.js", "/nowhere", "/docs", "/healthz"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    page = client.get("/")
    assert client.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    for path in ("/", "/docs", "/try.css", "/try.js"):
        text = client.get(path).text
        assert "https://" not in text  # nothing from elsewhere


def test_the_description_is_a_page_without_scripts(client: httpx.Client) -> None:
    page = client.get("/docs").text
    assert "<script" not in page
    for said in ("POST /v1/explain", "POST /v1/ask", "GET /metrics", 'id="ExplainRequest"', "openapi.json"):
        assert said in page


def test_metrics_count(made: dict[str, Any]) -> None:
    with served({"news": made["news"]}) as client:
        explain(client, texts=["goal", "law"])
        client.post("/v1/explain", json={"texts": ["poison"]})
        client.get("/wp-login.php")
        text = client.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['aimwise_requests_total{path="/v1/explain",status="200"}'] == "1"
    assert lines['aimwise_requests_total{path="/v1/explain",status="502"}'] == "1"
    assert lines['aimwise_requests_total{path="other",status="404"}'] == "1"
    assert lines['aimwise_request_seconds_count{path="/v1/explain"}'] == "2"
    assert lines['aimwise_batch_items_bucket{explainer="news",le="1"}'] == "1"
    assert lines['aimwise_batch_items_sum{explainer="news"}'] == "3"
    assert lines['aimwise_queue_items{explainer="news"}'] == "0"
    assert int(lines['aimwise_blackbox_queries_total{explainer="news"}']) > 0
    assert lines['aimwise_failures_total{explainer="news",kind="BadBlackBox"}'] == "1"
    assert all(line.startswith(("aimwise_", "# HELP", "# TYPE")) for line in text.splitlines())


def test_many_clients_share_a_batch_and_one_bad_item_fails_alone() -> None:
    model = News()
    explainer = METHODS["random"]().fit(model, news_texts(30, 0)["body"].tolist())
    with served({"news": explainer}, Settings(batch_wait=0.05)) as client:
        model.delay = 0.1
        base, found = str(client.base_url), {}

        def ask(n: int) -> None:
            text = "poison" if n == 7 else f"goal {n}"
            found[n] = httpx.post(f"{base}/v1/explain", json={"texts": [text]}, timeout=60, trust_env=False)

        model.sizes.clear()
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(model.sizes) >= 8
        assert [n for n, answer in found.items() if answer.status_code != 200] == [7]
        assert (found[7].status_code, found[7].json()["kind"]) == (502, "BadBlackBox")
        model.delay = 0.0
        mixed = explain(client, texts=["goal", "poison", "law"])["results"]
        assert [r.get("prediction", r.get("kind")) for r in mixed] == ["sports", "BadBlackBox", EVIL]


def test_time_has_a_limit() -> None:
    explainer = METHODS["random"]().fit(News(), news_texts(30, 0)["body"].tolist())
    with served({"news": explainer}, Settings(timeout=0.2, batch_size=1)) as client:
        late = client.post("/v1/explain", json={"texts": ["slow"] * 50})  # 25 seconds of work
        assert (late.status_code, late.json()["kind"]) == (504, "TimedOut")
        time.sleep(0.6)  # the one that is worked on is finished, those that no one waits for any more are dropped
        assert explain(client, texts=["goal"])["results"][0]["prediction"] == "sports"


def test_the_queue_has_a_limit() -> None:
    model, go = News(), threading.Event()
    explainer = METHODS["random"]().fit(model, news_texts(30, 0)["body"].tolist())
    answer = model.predict_proba
    model.predict_proba = lambda texts: (go.wait(30), answer(texts))[1]  # type: ignore[method-assign]
    with served({"news": explainer}, Settings(batch_size=1, max_items=4, max_queue=4)) as client:
        found: list[int] = []
        base = str(client.base_url)

        def ask() -> None:
            body = {"texts": ["goal"] * 4}
            found.append(httpx.post(f"{base}/v1/explain", json=body, timeout=60, trust_env=False).status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        for _ in range(200):
            if 'aimwise_queue_items{explainer="news"} 3' in client.get("/metrics").text:
                break
            time.sleep(0.02)
        busy = client.post("/v1/explain", json={"texts": ["a"] * 2})
        assert (busy.status_code, busy.headers["retry-after"], busy.json()["kind"]) == (503, "1", "Busy")
        go.set()
        thread.join()
        assert found == [200]
        assert client.post("/v1/explain", json={"texts": ["a"] * 4}).status_code == 200


def test_results_keep_their_order_and_room_is_given_back() -> None:
    async def all_of_it() -> None:
        sizes: list[int] = []
        batcher = Batcher(lambda items: [2 * i for i in items], most=4, wait=0.0, room=30, seen=sizes.append)
        answers = await asyncio.gather(*(batcher.ask(list(range(n, n + 7)), timeout=5) for n in range(4)))
        assert answers == [[2 * i for i in range(n, n + 7)] for n in range(4)]
        assert (sum(sizes), max(sizes), batcher.waiting) == (28, 4, 0)
        with pytest.raises(common.Refused, match="30 may"):
            await batcher.ask(list(range(31)), timeout=5)
        assert await batcher.ask([], timeout=1) == []
        await batcher.close()

    asyncio.run(all_of_it())


def test_a_mistake_of_ours_leaves_no_one_waiting() -> None:
    async def all_of_it() -> None:
        def broken(count: int) -> None:
            raise RuntimeError("broken")

        batcher = Batcher(lambda items: list(items), most=4, wait=0.0, room=30, seen=broken)
        for _ in range(2):
            assert [type(one) for one in await batcher.ask([1, 2], timeout=5)] == [RuntimeError] * 2
        await batcher.close()

    asyncio.run(all_of_it())


def test_halves_find_the_bad_ones_and_a_model_that_is_away_is_asked_once() -> None:
    calls: list[int] = []

    def picky(items: Any) -> list[Any]:
        calls.append(len(items))
        if 13 in items:
            raise ValueError("13")
        return list(items)

    found = in_halves(picky, range(64))
    assert [i for i, one in enumerate(found) if isinstance(one, ValueError)] == [13]
    assert [one for one in found if not isinstance(one, ValueError)] == [i for i in range(64) if i != 13]
    assert len(calls) == 13  # not 65

    def away(items: Any) -> list[Any]:
        calls.append(-1)
        raise NoAnswer("away")

    assert len(in_halves(away, range(8))) == 8
    assert calls.count(-1) == 1


def test_settings_that_make_no_sense_are_refused(made: dict[str, Any]) -> None:
    for wrong in ({"token": ""}, {"token": "é"}, {"max_items": 0}, {"timeout": 0.0}, {"max_queue": 3}, {"batch_wait": -1.0}):
        with pytest.raises(BadSetting):
            Settings(**wrong)
    with pytest.raises(BadSetting, match="no explainer"):
        create({})


def test_one_class_methods_tell_that_class(made: dict[str, Any]) -> None:
    texts = news_texts(40, 0)["body"].tolist()
    explainer = METHODS["l2x"](epochs=1, device="cpu").fit(News(), texts)
    with served({"news": explainer}) as client:
        found = explain(client, texts=["goal"], top=1)["results"][0]
        assert [each["class"] for each in found["evidence"]] == [found["prediction"]]
        assert client.get("/v1/explainers").json()["explainers"][0]["every_class"] is False
        other = client.post("/v1/explain", json={"texts": ["goal"], "classes": [EVIL]})
        assert (other.status_code, other.json()["kind"]) == (422, "SingleClass")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = filled(tmp_path_factory.mktemp("serve"))
    models = folder / "mypkg" / "models.py"
    models.write_text(models.read_text() + SLOW)
    sys.path.insert(0, str(folder))
    try:
        from mypkg.models import clf  # type: ignore[import-not-found]

        METHODS["occlusion"]().fit(clf, news_texts(30, 0)["body"].tolist()).save(folder / "news")
    finally:
        sys.path.remove(str(folder))
    return folder


SLOW = """

class Slow(News):
    def predict_proba(self, texts):
        import time
        if any("slow" in text for text in texts):
            time.sleep(0.7)
        return super().predict_proba(texts)


slow = Slow()
"""


def command(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    full = os.environ | {"OMP_NUM_THREADS": "1"} | env
    return subprocess.Popen(
        [sys.executable, "-m", "aimwise", "serve", *words],
        cwd=folder,
        env=full,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def started(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("serving at "):
            return line.split()[2]
    raise AssertionError("it did not start")


def test_a_stop_finishes_what_was_accepted(saved: Path) -> None:
    process = command(saved, "a=news", "b=news", "--model", "mypkg.models:slow", "--port", "0", "--json", "--batch-size", "1")
    # --json says nothing on the way, so the port is looked up where it listens
    address = ""
    for _ in range(300):
        address = listening_at(process.pid)
        if address:
            break
        time.sleep(0.1)
    found: list[httpx.Response] = []
    body = {"explainer": "a", "texts": ["slow goal", "slow law"]}
    thread = threading.Thread(
        target=lambda: found.append(httpx.post(f"{address}/v1/explain", json=body, timeout=60, trust_env=False))
    )
    thread.start()
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    thread.join(30)
    out, _ = process.communicate(timeout=30)
    assert found[0].status_code == 200
    assert [r["prediction"] for r in found[0].json()["results"]] == ["sports", "politics"]
    assert process.returncode == 0
    said = json.loads(out)
    assert (said["exit"], said["explainers"], said["queries"]["a"] > 0) == (0, ["a", "b"], True)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/healthz", trust_env=False)


def listening_at(pid: int) -> str:
    """The address at which a process listens, from the tables of the kernel."""
    try:
        own = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return ""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        parts = line.split()
        if parts[3] == "0A" and f"socket:[{parts[9]}]" in own:
            return f"http://127.0.0.1:{int(parts[1].split(':')[1], 16)}"
    return ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["news", "--model", "mypkg.models:clf", "--host", "0.0.0.0"], "can be reached from other machines. Pass --token-env"),
        (["news", "--model", "mypkg.models:clf", "--token-env", "NO_SUCH"], "no such environment variable"),
        (["a=news", "a=news", "--model", "mypkg.models:clf"], "Two explainers are called 'a'"),
        (["a=news", "b=news", "--model", "a=mypkg.models:clf"], "There is no model for b. Pass --model b=package.module:object."),
        (["a=news", "--model", "c=mypkg.models:clf"], "There is no explainer (in --model) 'c'"),
        (["a=nowhere", "--model", "mypkg.models:clf"], "is not a folder"),
    ],
)
def test_the_command_refuses(
    saved: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)
    assert main(["serve", *words]) == 1
    err = capsys.readouterr().err
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_token_and_a_taken_port(saved: Path) -> None:
    process = command(saved, "news", "--model", "mypkg.models:clf", "--port", "0", "--token-env", "TOKEN", TOKEN="abc")
    try:
        address = started(process)
        assert httpx.get(f"{address}/v1/explainers", trust_env=False).status_code == 401
        told = httpx.get(f"{address}/v1/explainers", headers={"authorization": "Bearer abc"}, trust_env=False).json()
        assert told["explainers"][0]["name"] == "news"
        other = command(saved, "news", "--model", "mypkg.models:clf", "--port", address.rpartition(":")[2])
        _, err = other.communicate(timeout=60)
        assert (other.returncode, "Choose another --host or --port" in err) == (1, True)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
