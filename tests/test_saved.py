"""Saved explainers: the way back, and everything that must not be read."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

import aimwise
from aimwise.errors import BadBlackBox, BadFile
from aimwise.files import sha256

QUICK = {"epochs": 2, "least_rows": 128, "masks_per_row": 2}


@pytest.fixture
def saved(linear, table, tmp_path):
    explainer = aimwise.AIM(**QUICK).fit(linear, table, class_names=["no", "yes"])
    return explainer, explainer.save(tmp_path / "saved")


def test_a_loaded_explainer_says_the_same(saved, linear, table):
    explainer, path = saved
    back = aimwise.load(path, linear)
    assert isinstance(back, aimwise.AIM)
    assert back.get_params() == explainer.get_params()
    assert (back.history_, back.best_epoch_, back.queries_) == (explainer.history_, explainer.best_epoch_, explainer.queries_)
    mine, theirs = explainer.explain(table, check=4), back.explain(table, check=4)
    assert torch.equal(mine.weights, theirs.weights)
    assert torch.equal(mine.check.agreement, theirs.check.agreement)
    assert theirs.classes == ("no", "yes")


@pytest.mark.parametrize("recipe", [aimwise.AIM.paper, aimwise.AIM.released])
def test_other_recipes_come_back_too(recipe, linear, table, tmp_path):
    linear.coefficients = np.ones(5)  # columns that are all alike, as the released networks take them to be
    explainer = recipe(epochs=4).fit(linear, table)
    back = aimwise.load(explainer.save(tmp_path / "x"), linear)
    assert torch.equal(back.explain(table).weights, explainer.explain(table).weights)


def test_every_kind_of_column_comes_back(frame, tmp_path):
    box = lambda x: np.tile([0.4, 0.6], (len(x), 1))  # noqa: E731
    groups = {"both": ["number", "text"]}
    explainer = aimwise.Random().fit(box, frame, features=aimwise.Columns(fill="noise", groups=groups))
    back = aimwise.load(explainer.save(tmp_path / "x"), box)
    got, want = back.explain(frame, check=2), explainer.explain(frame, check=2)
    assert torch.equal(got.weights, want.weights)
    assert got.names == want.names


def test_the_folder_holds_json_and_safetensors_and_nothing_else(saved):
    _, path = saved
    assert sorted(p.name for p in path.iterdir()) == ["config.json", "weights.safetensors"]
    config = json.loads((path / "config.json").read_text())
    assert config["format"] == "aimwise-explainer"
    assert config["classes"] == ["no", "yes"]
    assert config["features"]["settings"]["fill"] == "background"


def test_saving_again_replaces_and_leaves_no_litter(saved, linear, table):
    _, path = saved
    aimwise.Random().fit(linear, table).save(path)
    assert isinstance(aimwise.load(path, linear), aimwise.Random)
    assert [p.name for p in path.parent.iterdir()] == ["saved"]


def test_nothing_else_is_overwritten(saved, tmp_path):
    explainer, _ = saved
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_text("meow")
    with pytest.raises(BadFile, match="exists and is not one that was saved before"):
        explainer.save(other)
    assert (other / "cat.jpg").read_text() == "meow"
    (tmp_path / "empty").mkdir()
    explainer.save(tmp_path / "empty")


def test_a_save_that_fails_leaves_the_old_one(saved, linear, monkeypatch):
    explainer, path = saved
    monkeypatch.setattr("aimwise.explainers.saved.write_json", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        explainer.save(path)
    monkeypatch.undo()
    assert isinstance(aimwise.load(path, linear), aimwise.AIM)
    assert [p.name for p in path.parent.iterdir()] == ["saved"]


def test_levels_that_json_does_not_know_are_named(tmp_path):
    frame = pd.DataFrame({"bin": pd.cut(np.arange(20.0), 4), "x": np.arange(20.0)})
    explainer = aimwise.Random().fit(lambda x: np.tile([0.4, 0.6], (len(x), 1)), frame)
    with pytest.raises(BadFile, match=r"astype\(str\)"):
        explainer.save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def cut_off(path):
    file = path / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def flip_a_bit(path):
    file = path / "weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def cut_and_sign(path):
    cut_off(path)
    sign(path)


def sign(path):
    rewrite(path, sha256=sha256(path / "weights.safetensors"))


def rewrite(path, **entries):
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def other_shape(path):
    file = path / "weights.safetensors"
    tensors = load_file(file)
    tensors["method.explainer.head.weight"] = torch.zeros(3, 3)
    save_file(tensors, file)
    sign(path)


def lacks_a_tensor(path):
    file = path / "weights.safetensors"
    tensors = load_file(file)
    del tensors["features.owner"]
    save_file(tensors, file)
    sign(path)


def owner_outside(path):
    file = path / "weights.safetensors"
    tensors = load_file(file)
    tensors["features.owner"] += 99
    save_file(tensors, file)
    sign(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_off, "is missing or is not the file"),
        (flip_a_bit, "is missing or is not the file"),
        (cut_and_sign, "not a readable safetensors file"),
        (other_shape, "size mismatch"),
        (lacks_a_tensor, "damaged"),
        (owner_outside, "do not fit together"),
        (lambda p: (p / "weights.safetensors").unlink(), "is missing"),
        (lambda p: (p / "config.json").unlink(), "not readable JSON"),
        (lambda p: (p / "config.json").write_text('{"format": "aimwise-ex'), "not readable JSON"),
        (lambda p: (p / "config.json").write_bytes(b"\xff\xfe\x00"), "not readable JSON"),
        (lambda p: (p / "config.json").write_text("[1, 2]"), "not written by aimwise"),
        (lambda p: rewrite(p, format="shap"), "not written by aimwise"),
        (lambda p: rewrite(p, version=0), "version 0, an older one"),
        (lambda p: rewrite(p, version=99), "version 99, a newer or unknown one"),
        (lambda p: rewrite(p, method="os.system"), "holds the method 'os.system'; known here: aim, "),
        (lambda p: rewrite(p, settings={"alpha": 1.0, "evil": 2}), "damaged"),
        (lambda p: rewrite(p, settings=7), "damaged"),
        (lambda p: rewrite(p, classes=["only"]), "damaged: 1 classes but a base"),
        (lambda p: rewrite(p, features={"kind": "columns"}), "damaged"),
    ],
)
def test_damaged_foreign_and_other_versions_are_refused(saved, linear, damage, message):
    _, path = saved
    damage(path)
    with pytest.raises(BadFile, match=message):
        aimwise.load(path, linear)


def test_a_config_that_asks_for_huge_networks_takes_no_memory(saved, linear):
    _, path = saved
    config = json.loads((path / "config.json").read_text())
    config["features"]["facts"]["features"] = [f"f{i}" for i in range(5)]
    config["classes"] = [f"c{i}" for i in range(2_000_000)]
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadFile, match="2000000 classes but a base"):
        aimwise.load(path, linear)


def test_what_is_no_folder_is_named(tmp_path, linear):
    with pytest.raises(BadFile, match="not a folder"):
        aimwise.load(tmp_path / "nowhere", linear)


def test_another_model_than_at_fit_is_found_out(saved, table, tmp_path):
    _, path = saved
    shutil.copytree(path, tmp_path / "copy")
    back = aimwise.load(tmp_path / "copy", lambda x: np.full((len(x), 3), 1 / 3))
    with pytest.raises(BadBlackBox, match="has 3 classes, the explainer was fitted for 2"):
        back.explain(table)


def test_other_classes_than_at_fit_are_found_out(table, tmp_path):
    from sklearn.linear_model import LogisticRegression

    first = LogisticRegression().fit(table, np.where(table[:, 0] > 0, "yes", "no"))
    other = LogisticRegression().fit(table, np.where(table[:, 0] > 0, "up", "down"))
    path = aimwise.Random().fit(first, table).save(tmp_path / "x")
    with pytest.raises(BadBlackBox, match="classes down, up, the explainer was fitted for no, yes"):
        aimwise.load(path, other)
    named = aimwise.Random().fit(first, table, class_names=["a", "b"]).save(tmp_path / "y")
    assert aimwise.load(named, first).classes_ == ("a", "b")


def test_what_a_torch_module_returns_is_remembered(tmp_path):
    X = torch.randn(60, 2) * 5
    path = aimwise.Random().fit(torch.nn.Identity(), X).save(tmp_path / "x")
    back = aimwise.load(path, torch.nn.Identity())
    torch.testing.assert_close(back.explain(torch.tensor([[0.9, 0.1]])).probs, torch.tensor([[0.9, 0.1]]).softmax(1))


def test_tuples_are_refused_before_they_become_lists(tmp_path):
    frame = pd.DataFrame({"pair": pd.Series([(1, 2), (3, 4)] * 5, dtype=object), "x": np.arange(10.0)})
    explainer = aimwise.Random().fit(lambda x: np.tile([0.4, 0.6], (len(x), 1)), frame)
    with pytest.raises(BadFile, match="of type tuple"):
        explainer.save(tmp_path / "x")
