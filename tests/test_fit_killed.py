"""Fits over two processes that are killed, started again, and run from the command line by torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import aimwise
import together
from aimwise.training import CHECKPOINT
from command_line import MODELS

pytest.importorskip("lightning_fabric")


@pytest.mark.parametrize("victim", [0, 1])
def test_either_process_is_killed_the_other_ends_and_the_same_command_goes_on(tmp_path, victim):
    kept = tmp_path / "kept" / CHECKPOINT
    both = together.started(tmp_path, "kept", pause=0.2)
    deadline = time.monotonic() + 60
    while not kept.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    both[victim].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    said = both[1 - victim].communicate(timeout=60)[0]
    assert time.monotonic() - killed < 20
    assert both[victim].wait() == -signal.SIGKILL
    both[victim].communicate()
    assert both[1 - victim].returncode == 1
    assert "LostProcess: One of the 2 processes that fit together is gone" in said
    assert "goes on from its last checkpoint" in said

    names = ("kept", "undisturbed")
    together.ended(together.started(tmp_path, *names))
    found = [json.loads((tmp_path / f"{name}.{n}.json").read_text()) for name in names for n in range(2)]
    assert all(each[1] == found[0][1] for each in found)
    assert all([h["loss"] for h in each[0]] == [h["loss"] for h in found[0][0]] for each in found)


def test_torchrun_fits_from_the_command_line_and_the_first_process_writes(tmp_path):
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "__init__.py").touch()
    (tmp_path / "mypkg" / "models.py").write_text(MODELS)
    rng = np.random.default_rng(0)
    words = ["goal", "match", "vote", "law", "chip", "code", "the", "a"]
    pd.DataFrame({"body": [" ".join(rng.choice(words, 6)) for _ in range(60)]}).to_csv(tmp_path / "train.csv", index=False)
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "aimwise"]
    command += [
        "fit",
        "--model",
        "mypkg.models:clf",
        "--data",
        "train.csv",
        "--text-column",
        "body",
        "--out",
        "news",
        "--epochs",
        "1",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()  # one of the two speaks
    assert json.loads(line)["epochs"] == 1
    assert sorted(f.name for f in Path(tmp_path / "news").iterdir()) == ["config.json", "roles.json", "weights.safetensors"]
    loaded = aimwise.load(tmp_path / "news", lambda texts: np.full((len(texts), 3), 1 / 3))
    assert loaded.classes_ == ("sports", "politics", "tech")
