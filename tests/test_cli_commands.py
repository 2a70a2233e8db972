"""Every command as the README has it, each a process of its own, in a folder as a new user has it."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pandas as pd
import pytest

from command_line import aimwise, filled

CHEAP = ("--epochs", "1", "--max-queries", "4000")


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return filled(tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="module")
def fitted(here):
    words = ["fit", "--model", "mypkg.models:clf", "--data", "train.parquet", "--text-column", "body", "--out", "news-explainer"]
    return aimwise(*words, *CHEAP, cwd=here)


@pytest.fixture(scope="module")
def explained(here, fitted):
    words = "explain news-explainer --model mypkg.models:clf --data new.parquet --out why.parquet --html why.html --top 10"
    return aimwise(*words.split(), cwd=here)


def test_fit_says_what_it_takes_for_what_and_saves(here, fitted):
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stderr.splitlines()[:4] == [
        "data: train.parquet (parquet, 120 rows)",
        "  text: body",
        "  keys: article_id",
        "  label: label",
    ]
    assert "learning from all 120 rows, by aim: words filled by delete" in fitted.stderr
    assert "saved: news-explainer (aim, 3 classes: sports, politics, tech)" in fitted.stdout
    assert {p.name for p in (here / "news-explainer").iterdir()} == {"config.json", "weights.safetensors", "roles.json"}


def test_explain_writes_a_row_for_every_input_feature_and_class_and_a_page(here, explained):
    assert explained.returncode == 0, explained.stderr
    assert explained.stdout.startswith("explained 40 of 40 rows in ")
    found, data = pd.read_parquet(here / "why.parquet"), pd.read_parquet(here / "new.parquet")
    assert list(found.columns) == [
        "row", "article_id", "prediction", "probability", "feature", "value", "place", "start", "end", "class",
        "class_probability", "weight", "rank",
    ]  # fmt: skip
    assert found.groupby(["row", "class"])["rank"].max().max() == 10
    assert found["row"].nunique() == 40
    for row in (0, 39):
        mine = found[found["row"] == row]
        assert (mine["article_id"] == data["article_id"][row]).all()
        assert all(data["body"][row][a:b] == word for a, b, word in zip(mine["start"], mine["end"], mine["feature"], strict=True))
    best = found[(found["rank"] == 1) & (found["class"] == found["prediction"])]["feature"]
    assert best.isin(["goal", "match", "team", "vote", "senate", "law", "chip", "phone", "code"]).mean() > 0.6
    page = (here / "why.html").read_text(encoding="utf-8")
    assert page.startswith("<!")
    assert not (here / "why.parquet.parts").exists()


def test_show_prints_a_row_by_its_own_number(here, explained):
    shown = aimwise("show", "why.parquet", "--row", "17", cwd=here)
    assert shown.returncode == 0, shown.stderr
    assert "article_id=1017" in shown.stdout
    assert "Row 17: " in shown.stdout
    assert all(name in shown.stdout for name in ("sports", "politics", "tech"))
    missing = aimwise("show", "why.parquet", "--row", "40", "--json", cwd=here)
    assert missing.returncode == 1
    assert missing.stderr.startswith("aimwise: why.parquet has no row 40")
    assert json.loads(missing.stdout)["kind"] == "UnknownName"


def test_evaluate_judges_rivals_and_says_which_cannot_take_part(here, fitted):
    words = "evaluate news-explainer --model mypkg.models:clf --data test.parquet --rivals lime,ig,random --sample 3 --k 1,3"
    done = aimwise(*words.split(), "--out", "scores.json", cwd=here)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ("aim", "lime", "random", "lexicon", "faithfulness"))
    assert "left out: ig: This method needs gradients" in done.stdout
    assert "judging on 3 of 20 rows, a sample of seed 0 (--sample changes it)" in done.stderr
    methods = {row["method"] for row in json.loads((here / "scores.json").read_text())["scores"]}
    assert methods == {"aim", "lime", "random", "lexicon"}


def test_doctor_names_versions_device_folders_and_extras(here):
    done = aimwise("doctor", "--json", cwd=here, AIMWISE_DATA=str(here))
    said = json.loads(done.stdout)
    assert done.returncode == 0
    assert said["packages"]["torch"]
    assert said["device"]
    assert said["folders"]["AIMWISE_DATA"] == str(here)
    assert set(said["missing_extras"]) <= {"scale"}  # the tests run with all others


@pytest.mark.parametrize("words", [[], ["fit"], ["explain"], ["data", "train"]], ids=" ".join)
def test_help_comes_at_once_with_examples(words, here):
    took = []
    for _ in range(3):
        started = time.perf_counter()
        shown = aimwise(*words, "--help", cwd=here)
        took.append(time.perf_counter() - started)
    assert "examples:" in shown.stdout
    assert min(took) < 0.5


def test_nothing_heavy_is_imported_for_help():
    code = (
        "import sys; from aimwise.cli import parser; parser().format_help(); "
        "print(sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-S", "-c", f"import site; site.main(); {code}"], capture_output=True, text=True)
    assert not {"torch", "numpy", "pandas", "sklearn", "pyarrow", "rich", "tqdm"} & set(eval(out.stdout))


@pytest.mark.slow
def test_demo_runs_as_written(here):
    done = aimwise("demo", cwd=here)
    assert done.returncode == 0, done.stderr
    assert "Report: " in done.stdout
    assert (here / "aimwise-demo.html").is_file()
