"""Load on the service: 50 clients against a small text explainer, beside one client that sends one text at a time.

    python -m benchmarks.serve                     # 60 s with 50 clients, then rounds; writes results/serve.json
    python -m benchmarks.serve --seconds 5 --out /tmp/serve.json

Server and clients are processes of one machine with two cores: the clients' own work is in the figures. Each client keeps one
connection, sends one text, waits for the answer and sends the next, so 50 requests are underway all the time.

Latency, errors and memory are those of 50 clients for the whole time. Memory is that of the server, read once a second; growth
is the mean of the last quarter less the mean of the second quarter. Throughput is then compared in rounds: one client for a few
seconds, 50 for as many, and again, so that what else the machine does in the meantime falls on both alike; the ratio is that of
all requests of all rounds, and that of every round stands beside it. The processor time of the server for each request does not
hang on what else runs, and is told too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WORDS = {"goal": 0, "match": 0, "team": 0, "vote": 1, "senate": 1, "law": 1, "chip": 2, "phone": 2, "code": 2}
FILLER = ["the", "of", "and", "with", "a", "in", "on", "after", "before", "new", "old", "said", "was", "will", "be", "this"]
MODEL = '''
import torch
from torch import nn

IDS = {word: i + 1 for i, word in enumerate(WORDS)}


class Net(nn.Module):
    """Embeddings, a GRU and three classes, of which each third of the first nine words speaks for one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.gru, self.out = nn.Embedding(len(IDS) + 1, 32), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 3)
        self.topics = nn.Embedding(len(IDS) + 1, 3)
        told = 1.5 * torch.eye(3).repeat_interleave(3, 0)
        self.topics.weight.data = torch.cat([torch.zeros(1, 3), told, torch.zeros(len(IDS) - 9, 3)])

    def forward(self, ids):
        return self.out(self.gru(self.embed(ids))[1][0]) + self.topics(ids).sum(1)


NET = Net().eval()


@torch.no_grad()
def clf(texts):
    rows = [[IDS.get(word, 0) for word in text.lower().split()][:64] or [0] for text in texts]
    width = max(map(len, rows))
    return NET(torch.tensor([row + [0] * (width - len(row)) for row in rows])).softmax(-1)
'''
ROUNDS = 8
START = """import sys, torch; torch.set_num_threads(1); from aimwise.cli import main; sys.exit(main(sys.argv[1:]))"""


def texts(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([*FILLER, *WORDS], rng.integers(15, 40))) for _ in range(n)]


def fitted(folder: Path, *, method: str = "aim") -> None:
    """A model in a module of its own, and an explainer of it."""
    from aimwise.explainers import METHODS

    (folder / "served_model.py").write_text(f"WORDS = {list(WORDS) + FILLER!r}\n{MODEL}")
    sys.path.insert(0, str(folder))
    from served_model import clf  # type: ignore[import-not-found]

    classes = ["sports", "politics", "tech"]
    METHODS[method](device="cpu").fit(clf, texts(400, 0), class_names=classes).save(folder / "explainer")


class Server:
    """`aimwise serve` as a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        words = ["serve", str(folder / "explainer"), "--model", "served_model:clf", "--port", "0", *options]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *words], cwd=folder, env=env, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("serving at "):
                self.port = int(line.split()[2].rpartition(":")[2])
                break
        else:
            raise RuntimeError("the service did not start")

    def memory(self) -> float:
        """MB that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def cpu(self) -> float:
        """Seconds of processor time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=30)
        return self.process.returncode


async def client(port: int, sent: list[bytes], until: float, took: list[float], failed: list[str], start: int) -> None:
    """One text after the other over one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    n = start
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(sent[n % len(sent)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        took.append(time.perf_counter() - started)
        if not head.startswith(b"HTTP/1.1 200") or b'"prediction"' not in body:
            failed.append(f"{head[:40]!r} {body[:100]!r}")
        n += 1
    writer.close()


def requests() -> list[bytes]:
    """Requests as they go over the wire."""
    out = []
    for text in texts(500, 1):
        body = json.dumps({"texts": [text], "top": 5, "classes": [0]}).encode()
        head = "POST /v1/explain HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: "
        out.append(f"{head}{len(body)}\r\n\r\n".encode() + body)
    return out


async def load(server: Server, clients: int, seconds: float) -> dict[str, Any]:
    """So many clients for so long: what they got, and how long it took."""
    took: list[float] = []
    failed: list[str] = []
    memory: list[float] = []
    sent, used, started = requests(), server.cpu(), time.perf_counter()
    until = started + seconds

    async def watch() -> None:
        while time.perf_counter() < until:
            memory.append(server.memory())
            await asyncio.sleep(min(1.0, seconds / 20))

    await asyncio.gather(watch(), *(client(server.port, sent, until, took, failed, 7 * n) for n in range(clients)))
    spent, times = time.perf_counter() - started, np.array(took) * 1000
    quarter = max(1, len(memory) // 4)
    settled, last = float(np.mean(memory[quarter : 2 * quarter])), float(np.mean(memory[-quarter:]))
    return {
        "clients": clients,
        "seconds": round(spent, 2),
        "requests": len(took),
        "errors": len(failed),
        "first_error": failed[0] if failed else None,
        "per_second": round(len(took) / spent, 1),
        "median_ms": round(float(np.median(times)), 2),
        "p99_ms": round(float(np.quantile(times, 0.99)), 2),
        "worst_ms": round(float(times.max()), 2),
        "server_cpu_ms": round((server.cpu() - used) / len(took) * 1000, 3),
        "memory_mb": [round(settled, 1), round(last, 1)],
    }


def measured(seconds: float, clients: int, folder: Path, *, rounds: int = ROUNDS) -> dict[str, Any]:
    """The figures of one server: many clients all the time, then one and many by turns."""
    server = Server(folder)
    try:
        asyncio.run(load(server, clients, min(3.0, seconds)))  # warm
        many = asyncio.run(load(server, clients, seconds))
        slice_ = max(1.0, seconds / 20)
        turns = [(asyncio.run(load(server, 1, slice_)), asyncio.run(load(server, clients, slice_))) for _ in range(rounds)]
    finally:
        code = server.stop()
    one, all_ = (sum(turn[n]["requests"] for turn in turns) / sum(turn[n]["seconds"] for turn in turns) for n in (0, 1))
    costs = [float(np.median([turn[n]["server_cpu_ms"] for turn in turns])) for n in (0, 1)]
    return {
        "many_clients": many,
        "p99_over_median": round(many["p99_ms"] / many["median_ms"], 2),
        "memory_growth_mb": round(many["memory_mb"][1] - many["memory_mb"][0], 2),
        "errors": many["errors"] + sum(part["errors"] for turn in turns for part in turn),
        "one_per_second": round(one, 1),
        "many_per_second": round(all_, 1),
        "throughput_ratio": round(all_ / one, 2),
        "ratio_of_each_round": [round(b["per_second"] / a["per_second"], 2) for a, b in turns],
        "server_cpu_ms_a_request": {
            "one": round(costs[0], 3),
            "many": round(costs[1], 3),
            "ratio": round(costs[0] / costs[1], 2),
        },
        "exit": code,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("results/serve.json"))
    options = parser.parse_args()
    load_before = os.getloadavg()[0]  # what else the machine does
    with tempfile.TemporaryDirectory() as made:
        fitted(Path(made))
        found = measured(options.seconds, options.clients, Path(made))
    about = {
        "command": f"python -m benchmarks.serve --seconds {options.seconds:g} --clients {options.clients}",
        "cores": os.cpu_count(),
        "load_average_before": round(load_before, 1),
        "python": platform.python_version(),
        "text": "15 to 40 words; a GRU of 64; AIM(); evidence for one class, five words",
    }
    options.out.write_text(json.dumps({**about, **found}, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
