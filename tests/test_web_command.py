"""`aimwise serve` as a process: it starts, refuses, and finishes what it accepted before it stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from aimwise.cli import main
from aimwise.explainers import METHODS
from command_line import filled
from command_line import texts as news_texts


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
            time.sleep(1.5)
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
    address = ""
    for _ in range(900):  # --json says nothing on the way, so the port is looked up where it listens
        address = address or listening_at(process.pid)
        if address and answers(f"{address}/healthz"):
            break
        time.sleep(0.1)
    found: list[httpx.Response] = []
    body = {"explainer": "a", "texts": ["slow goal", "slow law"]}
    thread = threading.Thread(
        target=lambda: found.append(httpx.post(f"{address}/v1/explain", json=body, timeout=60, trust_env=False))
    )
    thread.start()
    for _ in range(200):  # until one text is worked on and the other waits
        if 'aimwise_queue_items{explainer="a"} 1' in httpx.get(f"{address}/metrics", timeout=60, trust_env=False).text:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    thread.join(60)
    out, _ = process.communicate(timeout=90)
    assert found[0].status_code == 200
    assert [r["prediction"] for r in found[0].json()["results"]] == ["sports", "politics"]
    assert process.returncode == 0
    said = json.loads(out)
    assert (said["exit"], said["explainers"], said["queries"]["a"] > 0) == (0, ["a", "b"], True)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/healthz", trust_env=False)


def answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=60, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


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
        _, err = other.communicate(timeout=90)
        assert (other.returncode, "Choose another --host or --port" in err) == (1, True)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=90)
    assert process.returncode == 0
