"""On a Ray cluster: black boxes asked by its workers, each answer asked for once; fits in Ray Train; cells of a study."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import aimwise
from aimwise.errors import BadBlackBox, BadFile, BadSetting, UnknownName
from aimwise.gates import GatedIds, GatedTexts
from aimwise.scale.answers import Answers, keys_of

ray = pytest.importorskip("ray")
from aimwise.scale import Pool  # noqa: E402
from aimwise.scale.ray import QUIET  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray warns of settings of its own
MODELS = '''
import os, time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def clf(texts):
    """Two classes by the number of a; each text is noted, some are too much, and one ends the process, once."""
    if (HERE / "die").exists() and any("last" in text for text in texts):
        (HERE / "die").unlink()
        os._exit(1)
    if any("boom" in text for text in texts):
        raise ValueError("boom is too much")
    handle = os.open(HERE / "asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, "".join(text + "\\n" for text in texts).encode())
    os.close(handle)
    if (HERE / "slow").exists():
        time.sleep(0.1)
    p = 1 / (1 + np.exp(-np.array([text.count("a") - 2.0 for text in texts])))
    return np.stack([1 - p, p], 1)
'''
FIT = """
import sys
sys.path.insert(0, ".")
from test_pool_models import texts
import aimwise
from aimwise.scale import Pool
made = aimwise.AIM(epochs=4, least_rows=128, most_queries=400)
made.fit(Pool("pool_models:clf", workers=2, rows=10, folder="kept"), texts, seed=1)
"""
MODEL = "pool_models:clf"
TEXTS = [" ".join(np.random.default_rng(n).choice(["a", "b", "c", "d", "e"], 6)) + f" {n}" for n in range(60)]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("user"), Path.cwd()
    (folder / "pool_models.py").write_text(MODELS)
    (folder / "test_pool_models.py").write_text(f"texts = {TEXTS!r}\n")
    os.environ |= QUIET | {"TOY_LOG": str(folder / "toys")}
    os.chdir(folder)
    ray.init(
        "local", num_cpus=6, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=80_000_000
    )
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    ray.shutdown()
    os.chdir(before)
    del os.environ["TOY_LOG"]


@pytest.fixture(scope="module")
def workers(here):
    made = Pool(MODEL, workers=2, rows=7)
    yield made
    made.close()


@pytest.fixture
def pool(here, workers):
    (here / "asked").unlink(missing_ok=True)
    workers.kept = None
    return workers


def asked(here: Path) -> Counter[str]:
    file = here / "asked"
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()


def small():
    return aimwise.AIM(epochs=4, least_rows=128, most_queries=400)


def test_answers_come_in_order_and_a_fit_is_the_same_and_asks_nothing_twice(here, pool, tmp_path):
    import pool_models

    pool.kept = Answers(tmp_path, MODEL)
    assert torch.equal(pool.probs(TEXTS), aimwise.FunctionBox(pool_models.clf).probs(TEXTS))
    (here / "asked").unlink()
    local = small().fit(pool_models.clf, TEXTS, seed=1)
    (here / "asked").unlink()
    far = small().fit(pool, TEXTS, seed=1)
    before = asked(here)
    assert max(before.values()) == 1
    assert not set(TEXTS) & set(before)
    assert far.queries_ == local.queries_  # what is known already is counted: the limit means the same each time
    pool.kept = Answers(tmp_path, MODEL)  # as a process that starts afresh has it
    again = small().fit(pool, TEXTS, seed=1)
    assert asked(here) == before
    weights = [each.explain(TEXTS[:5], probs=torch.full((5, 2), 0.5)).weights for each in (local, far, again)]
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])
    with pytest.raises(BadFile, match="holds answers of 'pool_models:clf', and this model is 'pool_models:other'"):
        Pool("pool_models:other", folder=tmp_path)


def test_a_worker_that_dies_is_started_again_and_its_block_asked_again(here, pool):
    import pool_models

    texts = [*TEXTS, "the last a"]
    (here / "die").touch()
    found = pool.probs(texts)
    assert not (here / "die").exists()
    assert torch.equal(found, aimwise.FunctionBox(pool_models.clf).probs(texts))


@pytest.mark.parametrize("kept", [False, True])
def test_a_model_that_raises_gives_the_error_it_gives_here(here, pool, tmp_path, kept):
    import pool_models

    texts = [*TEXTS, "boom"]
    with pytest.raises(BadBlackBox) as local:
        small().fit(pool_models.clf, texts)
    pool.kept = Answers(tmp_path, MODEL) if kept else None
    with pytest.raises(BadBlackBox) as far:
        small().fit(pool, texts, retries=1)
    assert str(far.value) == str(local.value).replace("61 inputs", "61 inputs in 2 tries")
    if kept:
        assert set(asked(here).values()) == {1}  # although the pool was asked twice


def test_what_cannot_be_loaded_or_hired_is_said(here):
    with pytest.raises(UnknownName, match="Did you mean 'clf'"):
        Pool("pool_models:clff")
    with pytest.raises(BadSetting, match=r"workers=900, cpus=1, gpus=0, and the cluster has 6 cores"):
        Pool(MODEL, workers=900)
    with pytest.raises(BadSetting, match="rows=0"):
        Pool(MODEL, rows=0)


def test_a_fit_that_is_killed_while_it_asks_asks_again_only_what_was_in_hand(here):
    (here / "asked").unlink(missing_ok=True)
    (here / "slow").touch()
    command = [sys.executable, "-c", FIT]
    env = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as first:
        deadline = time.monotonic() + 90
        while asked(here).total() < 200 and time.monotonic() < deadline and first.poll() is None:
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL, "it ended before it could be killed"
    (here / "slow").unlink()
    held = len(Answers(here / "kept", MODEL))
    assert held >= 200 - 2 * 20
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    twice = [text for text, count in asked(here).items() if count > 1]
    assert len(twice) <= 2 * 10  # two workers with ten each
    assert max(asked(here).values()) <= 2
    assert len(Answers(here / "kept", MODEL)) == len(asked(here)) > 300


@pytest.mark.slow
def test_ray_train_fits_with_two_workers(here, tmp_path):
    pytest.importorskip("lightning_fabric")
    train, torch_of = pytest.importorskip("ray.train"), pytest.importorskip("ray.train.torch")
    import together

    def fit_together(config: dict[str, str]) -> None:
        """What each worker runs; inside, so that it is sent as it is."""
        sys.path.insert(0, config["tests"])
        import together

        found = together.run("aim, asked once", together.fabric())
        Path(config["out"], f"{os.environ['RANK']}.json").write_text(json.dumps(found))

    trainer = torch_of.TorchTrainer(
        fit_together,
        train_loop_config={"tests": str(Path(__file__).parent), "out": str(tmp_path)},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(storage_path=str(tmp_path / "runs")),
    )
    trainer.fit()
    first, second = (json.loads((tmp_path / f"{n}.json").read_text()) for n in range(2))
    alone = together.run("aim, asked once", None)
    assert first == second
    assert [h["loss"] for h in first[0]] == pytest.approx([h["loss"] for h in alone[0]], abs=1e-4)


def test_cells_of_a_study_run_on_the_cluster(here, tmp_path):
    import toy_study

    made = toy_study.study(tmp_path)
    done = made.run(toy_study.CELLS[:6], jobs=2, engine="ray")
    assert [one.state for one in done] == ["run"] * 6
    assert sorted(r["sum"] for r in made.store.records()) == [1, 2, 3, 4, 5, 6]
    assert made.run(toy_study.CELLS[:6], jobs=2, engine="ray") == []
    assert len((here / "toys").read_text().splitlines()) == 12  # begun and ended once each


FORMS = {
    "texts": ["a", "b"],
    "floats": np.array([[1.0, 2.0], [1.0, 3.0]]),
    "singles": np.array([[1.0, 2.0], [1.0, 3.0]], dtype=np.float32),
    "objects": np.array([[1, "x"], [None, "x"]], dtype=object),
    "tensor": torch.tensor([[1, 2], [1, 3]]),
    "frame": pd.DataFrame({"n": [1.0, np.nan], "s": ["a", None]}),
    "named": pd.DataFrame({"m": [1.0, np.nan], "s": ["a", None]}),
    "pictures": [np.zeros((2, 2), np.uint8), np.ones((2, 2), np.uint8)],
    "gated texts": GatedTexts(["a b", "a b"], np.zeros((2, 2, 2), int), torch.tensor([[1.0, 0.0], [1.0, 0.5]]), "mask"),
    "gated ids": GatedIds(torch.tensor([[1, 2], [1, 2]]), torch.tensor([[1.0, 0.0], [1.0, 0.5]])),
}


def test_inputs_are_told_apart_by_content_and_form():
    keys = [key for inputs in FORMS.values() for key in keys_of(inputs)]
    assert len(set(keys)) == len(keys) == 20
    assert all(keys_of(inputs) == keys_of(inputs) for inputs in FORMS.values())
    assert keys_of(FORMS["gated texts"][1:]) == keys_of(FORMS["gated texts"])[1:]
    assert keys_of(FORMS["gated ids"][np.array([1])]) == keys_of(FORMS["gated ids"])[1:]
    with pytest.raises(BadBlackBox, match="Answers about dict cannot be kept"):
        keys_of({})


def test_a_folder_of_something_else_is_refused(tmp_path):
    store = Answers(tmp_path, "m")
    store.add(keys_of(["a", "b"]), torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    assert len(Answers(tmp_path, "m")) == 2
    (file,) = tmp_path.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(BadFile, match="damaged"):
        Answers(tmp_path, "m")
