"""A Ray cluster of two nodes on this machine: the same files as without it, also when workers are killed or the command is."""

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

from aimwise import scale
from aimwise.cli import main
from command_line import filled, fitted, inside, numbers, texts

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # Ray's, of its own settings

MODELS = '''

import pathlib
import time


def made():
    """The model of texts, with a note of the process that made it."""
    with open(pathlib.Path(__file__).parent / "made.txt", "a") as f:
        f.write(f"{os.getpid()}\\n")
    return clf


def fragile(frame):
    """Numbers, but a process is killed while there is a file that wants it, and slow while there is one that wants that."""
    folder = pathlib.Path(__file__).parent
    if (folder / "slow").exists():
        time.sleep(0.2)
    if (folder / "kill").exists():
        (folder / "kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return picky(frame)


def deadly(frame):
    os.kill(os.getpid(), signal.SIGKILL)
'''
FRAGILE = "mypkg.models:fragile"
BATCHES = ("--batch-size", "64", "--part-rows", "128")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = filled(tmp_path_factory.mktemp("user"))
    with open(folder / "mypkg" / "models.py", "a") as f:
        f.write(MODELS)
    with inside(folder):
        fitted()
        (folder / "many").mkdir()
        for i in range(3):
            frame = numbers(500, i)
            frame.loc[[17, 400], "a"] = 99.0
            frame.to_parquet(f"many/{i}.parquet")
        (folder / "texts").mkdir()
        for i in range(4):
            texts(400, 4)[i * 100 : (i + 1) * 100].to_parquet(f"texts/{i}.parquet")
        yield folder


@pytest.fixture(scope="module")
def cluster(here):
    """Two nodes; what reports what they do is left out."""
    from ray.cluster_utils import Cluster

    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_DATA_DISABLE_PROGRESS_BARS": "1"}
    before = {name: os.environ.get(name) for name in quiet}
    os.environ.update(quiet)
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=2)
    ray.init(address=made.address, logging_level="ERROR", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield made
    ray.shutdown()
    made.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def explain(out, *words, model=FRAGILE):
    return main(["explain", "risk", "--model", model, "--data", "many/*.parquet", "--out", out, *BATCHES, *words])


@pytest.fixture(scope="module")
def local(here):
    """What the other engine writes."""
    assert explain("local", "--html", "local.html", "--html-rows", "150", "--json") == 3
    return pd.read_parquet("local")


def same(out, local):
    pd.testing.assert_frame_equal(pd.read_parquet(out), local)
    assert Path(f"{out}.failed.jsonl").read_text() == Path("local.failed.jsonl").read_text()
    assert not Path(f"{out}.parts").exists()


def test_both_engines_write_the_same_rows_in_the_same_order(cluster, local, capsys):
    words = ("--engine", "ray", "--workers", "2", "--html", "ray.html", "--html-rows", "150", "--json")
    assert explain("out", *words) == 3
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["explained"], said["failed"], said["html_rows"]) == (1500, 1494, 6, 150)
    same("out", local)
    pages = [Path(name).read_text().replace("local", "ray") for name in ("ray.html", "local.html")]
    assert pages[0] == pages[1]


def test_a_worker_that_is_killed_costs_its_portion_alone(cluster, local, here, capsys):
    (here / "mypkg" / "kill").touch()
    assert explain("killed", "--engine", "ray", "--workers", "2") == 3
    said = capsys.readouterr()
    assert said.err.count("a worker is lost; the rows") == 1
    assert said.out.startswith("explained 1,494 of 1,500 rows")
    assert not (here / "mypkg" / "kill").exists()
    same("killed", local)


@pytest.mark.slow  # three workers must start and end
def test_a_model_that_ends_every_worker_is_told_apart(cluster, here, capsys):
    assert explain("dead", "--engine", "ray", "--workers", "1", model="mypkg.models:deadly") == 1
    assert "3 workers ended while they explained the rows 0 to 127, without an error" in capsys.readouterr().err
    assert explain("dead", "--engine", "ray", "--workers", "99") == 1
    assert "Got 99 workers" in capsys.readouterr().err


@pytest.mark.slow
def test_stopped_half_way_it_goes_on_to_the_same_files(cluster, local, here, capsys):
    (here / "mypkg" / "slow").touch()
    words = [sys.executable, "-m", "aimwise", "explain", "risk", "--model", FRAGILE, "--data", "many/*.parquet"]
    words += ["--out", "stopped", *BATCHES, "--engine", "ray", "--workers", "2"]
    env = os.environ | {"RAY_ADDRESS": cluster.address}
    process = subprocess.Popen(words, cwd=here, env=env, stderr=subprocess.PIPE, text=True)
    parts = here / "stopped.parts"
    deadline = time.monotonic() + 60
    while len(list(parts.glob("0*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    (here / "mypkg" / "slow").unlink()
    assert process.returncode == 130, said
    assert "rows done and kept in stopped.parts; the same command goes on from there" in said
    assert "Traceback" not in said
    kept = len(list(parts.glob("0*.json")))
    assert 3 <= kept < 12
    assert explain("stopped", "--engine", "ray", "--workers", "2", "--json") == 3
    assert json.loads(capsys.readouterr().out)["continued_after"] == kept * 128
    same("stopped", local)


def as_tasks(data):
    return data.map_batches(scale.Explain("news", model="mypkg.models:made()"), concurrency=2, batch_size=32)


def as_actors(data):
    """As it is done with GPUs, since Ray ends a process after one task that had a share of one."""
    return data.map_batches(
        scale.Explain,
        fn_constructor_args=("news",),
        fn_constructor_kwargs={"model": "mypkg.models:made()"},
        concurrency=2,
        num_gpus=0.25,
        batch_size=32,
    )


@pytest.mark.parametrize("mapped", [as_tasks, pytest.param(as_actors, marks=pytest.mark.slow)])
def test_ray_data_loads_once_in_every_process(mapped, cluster, here):
    want = scale.explain_frame(pd.read_parquet("texts"), "news", model="mypkg.models:clf")
    data = ray.data.read_parquet(str(here / "texts")).repartition(8)
    made = here / "mypkg" / "made.txt"
    made.unlink(missing_ok=True)
    mapped(data).write_parquet(str(here / mapped.__name__))
    found = pd.read_parquet(here / mapped.__name__)
    order = ["article_id", "place", "class"]
    found, want = (one.sort_values(order, ignore_index=True).drop(columns="row") for one in (found, want))
    np.testing.assert_allclose(found.pop("weight"), want.pop("weight"), atol=1e-6)
    pd.testing.assert_frame_equal(found, want, check_dtype=False)
    processes = made.read_text().split()
    assert len(processes) == len(set(processes)) <= 4, "there were eight tasks"
