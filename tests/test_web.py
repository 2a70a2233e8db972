"""The service: what it answers, and what it refuses."""

from __future__ import annotations

import base64
import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from aimwise.web.app import Settings
from web_service import EVIL, explain, explainers, people, png, served


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return explainers()


@pytest.fixture(scope="module")
def client(made: dict[str, Any]) -> Iterator[httpx.Client]:
    with served(made, Settings(max_body=1 << 20, max_items=64)) as found:
        yield found


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
    assert (
        f"a body of {'104,857,600' if told else 'more than 1,048,576'} bytes, wanted at most 1,048,576" in answer.json()["error"]
    )
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
