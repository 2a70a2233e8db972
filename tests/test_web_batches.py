"""The service under many clients: shared batches, limits of time and of the queue, and what fails alone."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from aimwise.errors import BadSetting, NoAnswer
from aimwise.explainers import METHODS
from aimwise.web import common
from aimwise.web.app import Settings, create
from aimwise.web.batching import Batcher, in_halves
from command_line import texts as news_texts
from web_service import EVIL, News, explain, served


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
        answers = await asyncio.gather(*(batcher.ask(list(range(n, n + 7)), timeout=5.0) for n in range(4)))
        assert answers == [[2 * i for i in range(n, n + 7)] for n in range(4)]
        assert (sum(sizes), max(sizes), batcher.waiting) == (28, 4, 0)
        with pytest.raises(common.Refused, match="30 may"):
            await batcher.ask(list(range(31)), timeout=5.0)
        assert await batcher.ask([], timeout=1.0) == []
        await batcher.close()
        assert await batcher.ask([1], timeout=5.0) == [2]  # an application may be started again
        await batcher.close()

    asyncio.run(all_of_it())


def test_a_mistake_of_ours_leaves_no_one_waiting() -> None:
    async def all_of_it() -> None:
        def broken(count: int) -> None:
            raise RuntimeError("broken")

        batcher = Batcher(lambda items: list(items), most=4, wait=0.0, room=30, seen=broken)
        for _ in range(2):
            assert [type(one) for one in await batcher.ask([1, 2], timeout=5.0)] == [RuntimeError] * 2
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


def test_answers_do_not_wait_for_more_to_send() -> None:
    """asyncio turns Nagle's delay off only for sockets that name their protocol; a small answer took 40 ms more else."""
    with common.listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_settings_that_make_no_sense_are_refused() -> None:
    for wrong in ({"token": ""}, {"token": "é"}, {"max_items": 0}, {"timeout": 0.0}, {"max_queue": 3}, {"batch_wait": -1.0}):
        with pytest.raises(BadSetting):
            Settings(**wrong)
    with pytest.raises(BadSetting, match="no explainer"):
        create({})


def test_one_class_methods_tell_that_class() -> None:
    texts = news_texts(40, 0)["body"].tolist()
    explainer = METHODS["l2x"](epochs=1, device="cpu").fit(News(), texts)
    with served({"news": explainer}) as client:
        found = explain(client, texts=["goal"], top=1)["results"][0]
        assert [each["class"] for each in found["evidence"]] == [found["prediction"]]
        assert client.get("/v1/explainers").json()["explainers"][0]["every_class"] is False
        other = client.post("/v1/explain", json={"texts": ["goal"], "classes": [EVIL]})
        assert (other.status_code, other.json()["kind"]) == (422, "SingleClass")
