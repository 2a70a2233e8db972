"""Fits that are stopped and continued, images through ONNX, rivals that need gradients, completion, and JSON for machines."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pandas as pd
import pytest

from aimwise.cli import data, main, parser
from aimwise.cli.completion import walked
from aimwise.data import zoo
from command_line import filled, inside
from test_models_by_name import onnx_model

NETWORK = """
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Softmax(1))
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with inside(filled(tmp_path_factory.mktemp("user"))) as folder:
        (folder / "mypkg" / "network.py").write_text(NETWORK)
        yield folder


def fit(*words, model="mypkg.models:numbers", source="numbers.csv", out="made"):
    return main(["fit", "--model", model, "--data", source, "--out", out, *words])


def test_fit_tells_machines_what_it_did(here, capsys):
    assert fit("--epochs", "1", "--max-queries", "3000", "--sample", "100", "--json", "--seed", "3") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["learned_from"], said["unusable"], said["method"]) == (400, 100, 0, "aim")
    assert said["roles"] == {"kind": "table", "inputs": ["a", "b", "c", "d"], "keys": ["id"], "label": None}
    assert said["queries"] <= 3000


@pytest.mark.parametrize("method", ["lime", "random", "occlusion"])
def test_any_method_can_be_fitted(method, here):
    assert fit("--method", method, "--fill", "mean", out=method) == 0
    config = json.loads((here / method / "config.json").read_text())
    assert (config["method"], config["features"]["settings"]["fill"]) == (method, "mean")


def test_a_fit_that_was_killed_goes_on_in_its_folder(here, monkeypatch):
    cheap = ("--epochs", "3", "--max-queries", "40000")
    import mypkg.models

    assert fit(*cheap, out="whole") == 0
    asked = mypkg.models.calls
    from aimwise import training

    saved, saves = training._State.save, []

    def killed(self, path, fingerprint):
        saved(self, path, fingerprint)
        saves.append(path)
        if len(saves) == 2:
            raise SystemExit(9)

    monkeypatch.setattr(training._State, "save", killed)
    with pytest.raises(SystemExit):
        fit(*cheap, "--folder", "kept", out="cut")
    monkeypatch.undo()
    assert fit(*cheap, "--folder", "kept", out="cut") == 0
    assert asked > 0
    assert (here / "cut" / "weights.safetensors").read_bytes() == (here / "whole" / "weights.safetensors").read_bytes()


def test_ctrl_c_keeps_the_best_epoch(here, monkeypatch, capsys):
    from aimwise import training

    close, closed = training.close_epoch, []

    def stops(*arguments):
        close(*arguments)
        closed.append(1)
        if len(closed) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "close_epoch", stops)
    assert fit("--epochs", "5", "--max-queries", "40000", out="stopped") == 130
    assert (here / "stopped" / "config.json").is_file()
    assert "(interrupted)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--method", "amy"], "There is no method 'amy'"),
        (["--method", "lime", "--recipe", "paper"], "--recipe paper is one of aim"),
        (["--method", "lime", "--epochs", "3"], "trains nothing"),
        (["--features", "patches:7"], "the inputs are of the kind 'table'"),
        (["--features", "colums"], "wanted words, columns, patches:7"),
        (["--columns", "a,b,e"], "has no column 'e'"),
        (["--out", "mypkg"], "mypkg exists and is not an explainer"),
        (["--out", "numbers.csv/x"], "numbers.csv is a file"),
        (["--http-header", "A=env:B"], "A header goes to an http address"),
        (["--fill", "meen"], "Did you mean 'mean'"),
    ],
)
def test_what_cannot_be_fitted_is_said_in_one_line(words, error, here, capsys):
    assert fit(*words, out="never") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("aimwise: ")
    assert error in said
    assert not (here / "never").exists()


def test_debug_shows_where(here):
    from aimwise.errors import UnknownName

    with pytest.raises(UnknownName):
        fit("--method", "amy", "--debug")


def test_a_network_is_judged_beside_gradients_and_learners(here, capsys):
    cheap = ("--epochs", "1", "--max-queries", "3000")
    assert fit(*cheap, "--columns", "a,b,c,d", model="mypkg.network:net", out="net") == 0
    assert "handed over as: an array of float32" in capsys.readouterr().err
    words = ["evaluate", "net", "--model", "mypkg.network:net", "--data", "numbers.csv", "--sample", "20", "--k", "1"]
    assert main([*words, "--rivals", "fastshap"]) == 1
    assert "fastshap learns from rows that it is not judged on" in capsys.readouterr().err
    assert main([*words, "--rivals", "ig,maple", "--train", "numbers.csv", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in said["scores"]} == {"aim", "ig", "maple", "random", "lexicon"}
    assert said["left_out"] == {}


def test_pictures_through_onnx(here, capsys):
    onnx, image = pytest.importorskip("onnx"), pytest.importorskip("PIL.Image")
    helper, kind = onnx.helper, onnx.TensorProto
    weights = np.zeros((64, 2), dtype=np.float32)
    weights[:32, 0] = weights[32:, 1] = 0.2
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"], axis=1),
        helper.make_node("MatMul", ["f", "W"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=1),
    ]
    inputs = [helper.make_tensor_value_info("x", kind.FLOAT, ["n", 1, 8, 8])]
    outputs = [helper.make_tensor_value_info("p", kind.FLOAT, ["n", 2])]
    onnx_model(here / "halves.onnx", nodes, inputs, outputs, [onnx.numpy_helper.from_array(weights, "W")])
    rng = np.random.default_rng(0)
    for i in range(24):
        picture = rng.integers(0, 60, (8, 8)).astype(np.uint8)
        picture[: 4 if i % 2 else 8, :] += np.uint8(120)
        (here / "pictures" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        image.fromarray(picture).save(here / "pictures" / "ab"[i % 2] / f"{i:02}.png")
    (here / "pictures" / "a" / "bad.png").write_bytes(b"no picture")
    words = ("--features", "patches:4", "--method", "occlusion")
    assert fit(*words, model="onnx:halves.onnx", source="pictures", out="seen") == 0
    assert "handed over as: 8x8 grey, floats, channels first" in capsys.readouterr().err
    words = ["explain", "seen", "--model", "onnx:halves.onnx", "--data", "pictures", "--out", "seen.parquet"]
    assert main([*words, "--html", "seen.html", "--try", "1,2", "--check", "4"]) == 3
    found = pd.read_parquet("seen.parquet")
    assert found["row"].nunique() == 24
    assert found["file"].iloc[0] == "a/00.png"
    upper = found[found["feature"].str.startswith("rows 0-3") & (found["class"] == "class 0")]
    assert (upper["weight"] > 0).all()
    assert main(["show", "seen.parquet", "--row", "3"]) == 0
    assert "file=a/06.png" in capsys.readouterr().out


def test_the_old_explainer_of_other_inputs_is_refused(here, capsys):
    assert fit("--method", "random", out="plain") == 0
    words = ["explain", "plain", "--model", "mypkg.models:numbers", "--data", "new.parquet"]
    words += ["--text-column", "body"]
    assert main([*words, "--out", "x.parquet"]) == 1
    assert "was fitted on table inputs, and new.parquet holds text inputs" in capsys.readouterr().err


def test_completion_knows_every_command_and_option(here, capsys):
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        for path, made in walked(parser(), ()):
            longs = [o.removeprefix("--") for action in made._actions for o in action.option_strings if o.startswith("--")]
            assert all(word in script for word in (*path, *longs)), (shell, path)
    assert main(["completion", "bash"]) == 0
    (here / "complete.sh").write_text(capsys.readouterr().out)

    def completed(*words):
        listed = " ".join(f"'{word}'" for word in words)
        ask = f"source complete.sh; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _aimwise; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, cwd=here, check=True)
        return done.stdout.split()

    assert completed("aimwise", "ex") == ["explain"]
    assert completed("aimwise", "explain", "news", "--html-") == ["--html-rows"]
    assert completed("aimwise", "fit", "--recipe", "") == ["default", "paper", "released"]
    assert completed("aimwise", "data", "tr") == ["train"]


def test_the_networks_in_the_help_are_those_there_are():
    assert tuple(zoo.NETWORKS) == data.NETWORKS


def test_numbers_that_make_no_sense_are_not_understood(here, capsys):
    for words in (["--top", "0"], ["--batch-size", "x"], ["--image-size", "28"], ["--html", "page.pdf"]):
        with pytest.raises(SystemExit) as ended:
            main(["explain", "made", "--model", "m:o", "--data", "numbers.csv", "--out", "w.parquet", *words])
        assert ended.value.code == 2
    assert "wanted HEIGHTxWIDTH" in capsys.readouterr().err
