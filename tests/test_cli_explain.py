"""`aimwise explain` when things go wrong: broken rows, a model that fails, a process that is killed, and what it says then."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import aimwise as library
from aimwise.cli import main
from command_line import aimwise, filled, inside, numbers, texts

MODEL = "mypkg.models:numbers"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = filled(tmp_path_factory.mktemp("user"))
    with inside(folder):
        frame = numbers(400, 3)[list("abcd")]
        import mypkg.models

        library.AIM(epochs=1).fit(mypkg.models.numbers, frame, max_queries=3000).save("risk")
        library.METHODS["occlusion"]().fit(mypkg.models.clf, texts(60, 0)["body"].tolist()).save("news")
        yield folder


def explain(*words, explainer="risk", model=MODEL, data="numbers.csv", out="why.parquet"):
    return main(["explain", explainer, "--model", model, "--data", data, "--out", out, *words])


def left(out="why.parquet"):
    with open(f"{out}.failed.jsonl", encoding="utf-8") as f:
        return {row["row"]: row["reason"] for row in map(json.loads, f)}


def test_the_weights_are_those_of_the_library(here, capsys):
    assert explain("--batch-size", "150") == 0
    assert "features (4): a, b, c, d" in capsys.readouterr().err
    found, frame = pd.read_parquet("why.parquet"), pd.read_csv("numbers.csv")
    made = library.load("risk", sys.modules["mypkg.models"].numbers).explain(frame[list("abcd")])
    by_cell = found.sort_values(["row", "place", "class"])
    wanted = made.weights.numpy().reshape(-1)
    np.testing.assert_allclose(by_cell["weight"].to_numpy(), wanted, atol=1e-6)
    assert by_cell["id"].iloc[0] == "k0"
    np.testing.assert_allclose(by_cell["value"].to_numpy()[::2].reshape(-1, 4), frame[list("abcd")].to_numpy())
    ranked = by_cell[by_cell["rank"] == 1].set_index(["row", "class"])["weight"].sort_index()
    np.testing.assert_allclose(ranked.to_numpy(), made.weights.amax(1).numpy().reshape(-1), atol=1e-6)


def test_wide_csv_and_json_lines_hold_the_same(here):
    assert explain() == 0
    assert explain("--wide", out="wide.parquet") == 0
    assert explain(out="why.csv") == 0
    assert explain("--top", "2", out="why.jsonl") == 0
    tidy, wide = pd.read_parquet("why.parquet"), pd.read_parquet("wide.parquet")
    assert len(wide) == 400
    mine = tidy[(tidy["row"] == 7) & (tidy["class"] == "class 1")]
    np.testing.assert_allclose(wide["weights.class 1"][7], mine["weight"])
    assert list(wide["feature"][7]) == list("abcd")
    pd.testing.assert_frame_equal(pd.read_csv("why.csv"), tidy, check_dtype=False, rtol=1e-5)
    lines = [json.loads(line) for line in (here / "why.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 400 * 2 * 2
    assert {line["rank"] for line in lines} == {1, 2}


def test_broken_rows_are_named_and_the_rest_is_explained(here, capsys):
    rows = ["id,a,b,c,d"] + [f"k{i},{i / 10},1,2,3" for i in range(3000)]
    rows[1 + 5] = "k5,1,2"
    rows[1 + 40] = "k40,1,2,3,4,5,6"
    rows[1 + 1000] = "k1000,seven,1,2,3"
    made = "\n".join(rows).encode().replace(b"k2000,", b"k\xff2000,") + b"\nk3000,1\n"
    with open("broken.csv", "wb") as f:
        f.write(made)
    assert explain("--key", "id", data="broken.csv") == 3
    said = capsys.readouterr()
    assert "aimwise: 5 rows could not be explained; why.parquet.failed.jsonl names them" in said.err
    assert "explained 2,996 of 3,001 rows" in said.out
    assert left() == {
        5: "3 cells, wanted 5: 'k5,1,2'",
        40: "7 cells, wanted 5: 'k40,1,2,3,4,5,6'",
        1000: "column 'a' is 'seven', wanted a number",
        2000: "column 'id' is not UTF-8",
        3000: "2 cells, wanted 5: 'k3000,1'",
    }
    found = pd.read_parquet("why.parquet").drop_duplicates("row").set_index("row")["id"]
    assert (found == [f"k{i}" for i in found.index]).all()


def test_rows_without_a_text_are_named(here):
    lines = [{"body": "the goal of the match"}, {"body": None}, {"body": 7}, {"other": "x"}, "not json", ["a"], {"body": " "}]
    with open("texts.jsonl", "w", encoding="utf-8") as f:
        f.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    assert explain("--text-column", "body", explainer="news", model="mypkg.models:clf", data="texts.jsonl") == 3
    reasons = left()
    assert sorted(reasons) == [1, 2, 3, 4, 5, 6]
    assert reasons[2] == "column 'body' is int, wanted a text"
    assert reasons[4].startswith("not JSON")
    assert explain("--text-column", "body", explainer="news", model="mypkg.models:clf", data="new.parquet") == 0
    assert not os.path.exists("why.parquet.failed.jsonl"), "the list of an earlier run is gone"


def test_a_model_that_fails_on_one_row_in_a_thousand_explains_the_others(here, capsys):
    frame = numbers(3000, 5)
    frame.loc[[17, 1400, 2999], "a"] = 99.0
    frame.to_parquet("picky.parquet")
    assert explain("--json", model="mypkg.models:picky", data="picky.parquet") == 3
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["explained"], said["failed"], said["exit"]) == (3000, 2997, 3, 3)
    assert said["queries"] < 3000 * 3, "halving asks again about few rows"
    reasons = left()
    assert sorted(reasons) == [17, 1400, 2999]
    assert "99 is too much" in reasons[17]
    assert explain(data="picky.parquet", out="all.parquet") == 0
    mine, whole = pd.read_parquet("why.parquet"), pd.read_parquet("all.parquet")
    whole = whole[~whole["row"].isin(reasons)].reset_index(drop=True)
    np.testing.assert_allclose(mine["weight"], whole["weight"], atol=1e-5)


def test_a_model_that_always_fails_ends_soon(here, capsys):
    assert explain("--restart", model="mypkg.models:broken") == 1
    assert "failed on 20 rows in sequence" in capsys.readouterr().err
    assert explain("--restart", "--json", model="mypkg.models:broken") == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert json.loads(said.out)["kind"] == "BadBlackBox"
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--data", "new.parquet"], "missing|has no column|which new.parquet has not"),
        (["--columns", "a,b,zz"], "has no column 'zz'"),
        (["--key", "nope"], "has no column 'nope'; it has 'id', 'a'"),
        (["--data", "absent.csv"], "no file or folder absent.csv"),
        (["--out", "numbers.csv/deep/why.parquet"], "numbers.csv is a file"),
        (["--out", "why.txt"], "ends in .parquet, .csv, .jsonl"),
        (["--out", "why.csv", "--wide"], "CSV has no arrays"),
        (["--html", "numbers.csv/why.html"], "numbers.csv is a file"),
        (["--model", "model.pkl"], "would run whatever code is inside"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(words, error, here, capsys):
    import mypkg.models

    before = mypkg.models.calls
    assert explain("--restart", *words) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("aimwise: ")
    assert re.search(error, said), said
    assert mypkg.models.calls == before
    assert not os.path.exists("why.parquet.parts")


@pytest.mark.parametrize(("way", "code"), [("SIGKILL", -signal.SIGKILL), ("SIGINT", 130)])
def test_killed_half_way_it_goes_on_to_the_same_file(way, code, here, capsys):
    words = ("explain", "risk", "--model", MODEL, "--data", "numbers.csv", "--batch-size", "64", "--html", "why.html")
    cut = f"{way}.parquet"
    assert main([*words, "--out", "whole.parquet"]) == 0
    ended = aimwise(*words, "--out", cut, cwd=here, END_AT="4", END_BY=way)
    assert ended.returncode == code, ended.stderr
    assert not (here / cut).exists()
    kept = sorted(p.name for p in (here / f"{cut}.parts").glob("*.parquet"))
    assert kept == ["000000.parquet", "000001.parquet", "000002.parquet"]
    if way == "SIGINT":
        assert "192 rows done and kept in SIGINT.parquet.parts; the same command goes on from there" in ended.stderr
        assert "Traceback" not in ended.stderr
    capsys.readouterr()
    assert main([*words, "--out", cut, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["continued_after"], said["explained"], said["html_rows"]) == (192, 400, 400)
    assert (here / cut).read_bytes() == (here / "whole.parquet").read_bytes()
    assert not (here / f"{cut}.parts").exists()


def test_it_does_not_go_on_with_something_else(here, capsys, monkeypatch):
    import mypkg.models

    monkeypatch.setattr(mypkg.models, "calls", 0)
    monkeypatch.setenv("END_AT", "3")
    monkeypatch.setenv("END_BY", "SIGINT")
    numbers(400, 3).to_csv("other.csv", index=False)
    assert explain("--batch-size", "64", data="other.csv", out="other.parquet") == 130
    monkeypatch.delenv("END_AT")
    assert explain("--batch-size", "64", "--top", "2", data="other.csv", out="other.parquet") == 1
    assert "holds an unfinished run with another top." in capsys.readouterr().err
    numbers(400, 4).to_csv("other.csv", index=False)
    assert explain("--batch-size", "64", data="other.csv", out="other.parquet") == 1
    assert "rows 0 to 63 are not those that other.parquet.parts was begun with" in capsys.readouterr().err
    assert explain("--batch-size", "64", "--restart", data="other.csv", out="other.parquet") == 0


def test_standard_input_and_packed_files(here):
    words = ("explain", "news", "--model", "mypkg.models:clf", "--data", "-", "--out", "piped.jsonl", "--quiet")
    done = aimwise(*words, cwd=here, stdin="the goal of the team\n\na vote on the law\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "quiet, and no progress where there is no terminal"
    lines = [json.loads(line) for line in (here / "piped.jsonl").read_text().splitlines()]
    assert {(line["row"], line["prediction"]) for line in lines} == {(0, "sports"), (1, "politics")}
    with gzip.open("numbers.csv.gz", "wb") as f:
        f.write((here / "numbers.csv").read_bytes())
    assert explain(data="numbers.csv.gz", out="packed.parquet") == 0
    assert pq.read_table("packed.parquet").num_rows == 400 * 4 * 2


def test_a_reader_that_leaves_is_no_error(here):
    assert explain() == 0
    show = f"{sys.executable} -m aimwise show why.parquet | head -1"
    done = subprocess.run(["bash", "-c", show], capture_output=True, text=True, cwd=here)
    assert done.stderr == ""
