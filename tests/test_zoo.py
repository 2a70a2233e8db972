"""The cache of trained networks: trained once, never half there, first come first kept; and the command that fills it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from aimwise.cli import main
from aimwise.data import DATASETS, trained, zoo
from aimwise.data.trained import CONFIG, WEIGHTS, Recipe
from aimwise.data.viewers import RECIPES, Viewer
from aimwise.errors import BadFile, BadSetting, MissingData, UnknownName
from aimwise.training import Plan
from test_zoo_training import scores, toy

ORDER = toy().test.inputs


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty cache, a toy in place of the digits, and a short recipe for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("AIMWISE_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setitem(DATASETS, "digits", toy)
    monkeypatch.setitem(RECIPES, "digits", Recipe("digits_cnn", Plan(epochs=3, batch_size=16, lr=5e-3, patience=5)))
    return tmp_path / "xdg" / "aimwise" / "zoo"


@pytest.fixture
def no_training(monkeypatch):
    """From here on nothing may be trained."""

    def refuse(*_, **__):
        raise AssertionError("trained again")

    def stop(name="digits"):
        monkeypatch.setitem(zoo.NETWORKS, name, (Viewer, refuse))

    return stop


def folders(home):
    return sorted(p.name for p in home.iterdir())


# --- the cache


def test_a_network_is_trained_once(home, no_training):
    first = zoo.trained("digits")
    assert folders(home) == ["digits-seed0"]
    no_training()
    second = zoo.trained("digits", device="cpu")
    assert torch.equal(second(ORDER), first(ORDER))
    assert (second.data, second.seed, second.epochs, second.accuracy) == ("digits", 0, 3, first.accuracy)
    assert second.test_accuracy == first.test_accuracy > 0.9


def test_seeds_and_epochs_have_places_of_their_own(home):
    for settings in ({}, {"seed": 1}, {"epochs": 1}, {"seed": 1, "epochs": 2}):
        zoo.trained("digits", **settings)
    assert folders(home) == ["digits-seed0", "digits-seed0-epochs1", "digits-seed1", "digits-seed1-epochs2"]
    assert not torch.equal(zoo.trained("digits")(ORDER), zoo.trained("digits", seed=1)(ORDER))
    assert zoo.trained("digits", epochs=1).epochs == 1


def test_every_network_is_for_a_known_data_set():
    names = ["imdb", "ag_news", "hatexplain", "mnist", "mnist3", "fashion_mnist", "fashion3", "digits"]
    assert list(zoo.NETWORKS) == names
    assert set(names) < set(DATASETS)
    with pytest.raises(UnknownName, match=r"no network for the data set 'mnits'.*Did you mean 'mnist'"):
        zoo.trained("mnits")


@pytest.mark.parametrize("name", ["mnist", "mnist3", "fashion_mnist", "fashion3"])
def test_the_networks_for_images_come_with_the_library(home, name, no_training, capsys):
    no_training(name)
    kept = zoo.kept(name, device="cpu")
    assert (kept.network.data, kept.network.seed, kept.new) == (name, 0, False)
    assert kept.path.parent == zoo.SHIPPED
    assert not home.exists()
    assert kept.network.test_accuracy > 0.85
    assert main(["data", "train", name]) == 0
    assert f"saved: {kept.path}\n" in capsys.readouterr().out


def test_one_that_was_trained_goes_before_the_one_that_comes_along(home):
    other = zoo.trained("digits")
    other.save(home / "mnist-seed0")
    assert zoo.found("mnist") == home / "mnist-seed0"
    assert (zoo.found("mnist", seed=1), zoo.found("mnist", epochs=2)) == (None, None)
    assert torch.equal(zoo.trained("mnist")(ORDER), other(ORDER))


def test_absent_data_and_bad_settings_are_said_and_leave_nothing(home):
    with pytest.raises(MissingData, match="aimwise data get mnist"):
        zoo.trained("mnist", seed=1)
    with pytest.raises(BadSetting, match="epochs=0"):
        zoo.trained("digits", epochs=0)
    with pytest.raises(BadSetting, match="device='gpu'"):
        zoo.trained("digits", device="gpu")
    assert folders(home) == []


def test_what_a_killed_process_left_is_not_read(home):
    made = zoo.trained("digits", seed=1)
    left = home / ".digits-seed0.abc123"
    shutil.copytree(home / "digits-seed1", left)
    (left / CONFIG).unlink()
    (home / "digits-seed0").mkdir()
    assert not torch.equal(zoo.trained("digits")(ORDER), made(ORDER))
    assert (home / "digits-seed0" / CONFIG).is_file()


def test_a_damaged_place_is_named_and_replaced_on_demand(home):
    made = zoo.trained("digits")
    weights = home / "digits-seed0" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(BadFile, match=rf"{re.escape(str(weights))} is missing or is not.*aimwise data train digits --again"):
        zoo.trained("digits")
    assert torch.equal(zoo.kept("digits", again=True).network(ORDER), made(ORDER))
    assert torch.equal(zoo.trained("digits")(ORDER), made(ORDER))
    (home / "digits-seed0" / CONFIG).unlink()
    for call in (zoo.trained, lambda name: zoo.kept(name, again=True)):
        with pytest.raises(BadFile, match=f"{re.escape(str(home / 'digits-seed0'))}.*[Rr]emove"):
            call("digits")


def test_the_first_to_end_is_kept_by_both(home, monkeypatch, tmp_path):
    other = zoo.trained("digits", seed=1)

    def slower(*args, **kwargs):
        other.save(home / "digits-seed0")  # another process ends while this one trains
        return trained.learn(*args, **kwargs)

    monkeypatch.setattr("aimwise.data.viewers.learn", slower)
    mine = zoo.trained("digits")
    assert torch.equal(mine(ORDER), other(ORDER))
    assert torch.equal(zoo.trained("digits")(ORDER), other(ORDER))


def test_an_end_at_the_very_same_time_is_no_error(home, monkeypatch):
    other = zoo.trained("digits", seed=1)

    def beaten(self, path):
        shutil.copytree(home / "digits-seed1", path)
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(Viewer, "save", beaten)
    assert torch.equal(zoo.trained("digits")(ORDER), other(ORDER))


def test_a_full_disk_is_named(home, monkeypatch):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Viewer, "save", full)
    with pytest.raises(BadFile, match=r"digits-seed0 cannot be written \(.*No space left"):
        zoo.trained("digits")


def test_a_place_that_cannot_be_written_is_named_before_training(home, no_training):
    no_training()
    home.parent.mkdir(parents=True)
    home.write_text("a file where a folder is wanted")
    with pytest.raises(BadFile, match=r"digits-seed0 cannot be written"):
        zoo.trained("digits")


SCRIPT = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
from aimwise.data import DATASETS, zoo
from aimwise.data.trained import Recipe
from aimwise.data.viewers import RECIPES
from aimwise.training import Plan
from test_zoo_training import toy
DATASETS["digits"], RECIPES["digits"] = toy, Recipe("digits_cnn", Plan(epochs=1, batch_size=16, lr=5e-3))
print(zoo.trained("digits", epochs=1)(toy().test.inputs).sum(0).tolist())
"""


def test_two_processes_at_once_end_with_one_whole_network(home):
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert answers[0] == answers[1] != ""
    assert folders(home) == ["digits-seed0-epochs1"]
    assert str(Viewer.load(home / "digits-seed0-epochs1")(ORDER).sum(0).tolist()) == answers[0].strip()


def test_an_interrupted_training_is_kept_as_what_it_is(home, monkeypatch):
    with monkeypatch.context() as patch:
        scores(patch, [0.5, 0.7, KeyboardInterrupt(), 0.6])
        made = zoo.trained("digits")
    assert made.stopped == "interrupted"
    assert folders(home) == ["digits-seed0-epochs2"]
    shutil.rmtree(home / "digits-seed0-epochs2")
    with monkeypatch.context() as patch:
        scores(patch, [0.5, 0.7, 0.6])
        whole = zoo.trained("digits", epochs=2)
    assert whole.stopped == "epochs"
    assert torch.equal(made(ORDER), whole(ORDER))


# --- the command


def test_the_command_trains_once(home, capsys, no_training):
    assert main(["data", "train", "digits"]) == 0
    out = capsys.readouterr().out
    network = Viewer.load(home / "digits-seed0")
    assert re.search(r"^digits: digits_cnn of seed 0, trained for 3 epochs in \d+ s\n", out)
    assert f"{100 * network.accuracy:.1f} % on dev, {100 * network.test_accuracy:.1f} % on test\n" in out
    assert f"saved: {home / 'digits-seed0'}\n" in out
    no_training()
    assert main(["data", "train", "digits", "--seed", "0"]) == 0
    again = capsys.readouterr().out
    assert "already trained for 3 epochs; --again trains it anew" in again
    assert again.splitlines()[1:] == out.splitlines()[1:]
    with pytest.raises(AssertionError, match="trained again"):
        main(["data", "train", "digits", "--again"])


def test_the_command_replaces_only_when_told(home, capsys, tmp_path):
    main(["data", "train", "digits", "--epochs", "1"])
    assert "trained for 1 epoch in" in capsys.readouterr().out
    zoo.trained("digits", seed=1).save(home / "digits-seed0-epochs1")
    assert main(["data", "train", "digits", "--epochs", "1"]) == 0
    assert "digits_cnn of seed 1" in capsys.readouterr().out
    assert main(["data", "train", "digits", "--epochs", "1", "--again"]) == 0
    assert Viewer.load(home / "digits-seed0-epochs1").seed == 0


def test_the_command_saves_elsewhere(home, capsys, tmp_path, no_training):
    own, copy = tmp_path / "deep" / "own", tmp_path / "copy"
    assert main(["data", "train", "digits", "--out", str(own)]) == 0
    assert f"saved: {own}\n" in capsys.readouterr().out
    assert not home.exists()
    made = zoo.trained("digits")
    no_training()
    assert main(["data", "train", "digits", "--out", str(copy)]) == 0
    assert f"saved: {copy}\n" in capsys.readouterr().out
    assert torch.equal(Viewer.load(copy)(ORDER), made(ORDER))
    assert main(["data", "train", "digits", "--out", str(own)]) == 1
    assert "holds a network already" in capsys.readouterr().err
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    assert main(["data", "train", "digits", "--again", "--out", str(tmp_path / "letters")]) == 1
    assert "is no trained network" in capsys.readouterr().err
    assert (tmp_path / "letters" / "dear.txt").read_text() == "dear"


def test_ctrl_c_at_the_command_keeps_the_best_and_says_so(home, capsys, monkeypatch, caplog):
    with monkeypatch.context() as patch:
        scores(patch, [0.5, KeyboardInterrupt(), 0.6])
        assert main(["data", "train", "digits"]) == 130
    out = capsys.readouterr().out
    assert "stopped after 1 epoch in" in out
    assert f"saved: {home / 'digits-seed0-epochs1'}\n" in out
    assert "the best so far, is kept" in caplog.text
    scores(monkeypatch, [KeyboardInterrupt()])
    assert main(["data", "train", "digits", "--seed", "9"]) == 130
    assert folders(home) == ["digits-seed0-epochs1"]


def test_help_teaches_with_examples(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["data", "train", "--help"])
    assert stopped.value.code == 0
    out = capsys.readouterr().out
    for part in ("aimwise data train mnist ", "--device cuda", "--out box", "--again", "fashion3", "aimwise.data.zoo.trained"):
        assert part in out
    assert main(["data", "train", "mnits"]) == 1
    assert "Did you mean 'mnist'" in capsys.readouterr().err
