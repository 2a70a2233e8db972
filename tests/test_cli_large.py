"""A file of 2 GB, explained in less than 1 GB of memory."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import aimwise
from command_line import filled, inside, numbers

SIZE = 2_000_000_000
LIMIT = 1_000_000_000


@pytest.mark.slow
def test_two_gigabytes_in_less_than_one_of_memory(tmp_path):
    rng = np.random.default_rng(0)
    with inside(filled(tmp_path)):
        import mypkg.models

        aimwise.AIM(epochs=1).fit(mypkg.models.numbers, numbers(400, 3)[list("abcd")], max_queries=3000).save("risk")
    note = "n" * 500  # a column that is in the file and is not read
    blocks = [
        "".join(f"{a:.8f},{b:.8f},{c:.8f},{d:.8f},{note}\n" for a, b, c, d in rng.normal(size=(20_000, 4))) for _ in range(4)
    ]
    rows = 0
    with open(tmp_path / "large.csv", "w") as f:
        f.write("a,b,c,d,note\n")
        while f.tell() < SIZE:
            f.write(blocks[rows // 20_000 % 4])
            rows += 20_000
    words = ["explain", "risk", "--model", "mypkg.models:numbers", "--data", "large.csv", "--out", "why.parquet", "--top", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "aimwise", *words, "--batch-size", "8192", "--quiet"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert used.ru_maxrss * 1024 < LIMIT
    assert pq.ParquetFile(tmp_path / "why.parquet").metadata.num_rows == rows * 2
