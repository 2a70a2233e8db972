"""Batches of rows explained as any engine hands them over: frames, Arrow tables, dicts of arrays, iterators of frames."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from aimwise import scale
from aimwise.cli import main
from aimwise.errors import BadBlackBox, BadFeatures, BadFile, BadSetting, UnknownName
from command_line import filled, fitted, inside, numbers, texts

MODEL = "mypkg.models:numbers"
CLF = "mypkg.models:clf"
OURS = ["prediction", "probability", "feature", "value", "place", "class", "class_probability", "weight", "rank"]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with inside(filled(tmp_path_factory.mktemp("user"))) as folder:
        fitted()
        yield folder


def test_a_frame_has_the_lines_that_the_command_writes(here):
    numbers(300, 7).to_parquet("some.parquet")
    words = ["explain", "risk", "--model", MODEL, "--data", "some.parquet", "--out", "why.parquet", "--batch-size", "128"]
    assert main(words) == 0
    found = scale.explain_frame(pd.read_parquet("some.parquet"), "risk", model=MODEL, rows=128)
    assert found.pop("error").isna().all()
    pd.testing.assert_frame_equal(found, pd.read_parquet("why.parquet"))
    assert main([*words, "--wide", "--top", "2"]) == 0
    wide = scale.Explain("risk", model=MODEL, rows=128, wide=True, top=2)(pa.Table.from_pandas(numbers(300, 7)))
    assert wide.drop_columns("error").to_pylist() == pa.parquet.read_table("why.parquet").to_pylist()


def test_every_kind_of_batch_is_taken(here):
    frame = texts(20, 5)
    explain = scale.Explain("news", model=CLF, keys={"article_id": "int64"}, text_column="body", top=3)
    whole = explain(frame)
    assert whole.schema.field("article_id").type == pa.int64()
    arrow = pa.Table.from_pandas(frame)
    for batch in (arrow, {n: np.array(frame[n]) for n in frame}, arrow.to_pandas(types_mapper=pd.ArrowDtype)):
        assert explain(batch).equals(whole)
    assert explain(frame.iloc[:0]).schema.equals(whole.schema)
    assert pickle.loads(pickle.dumps(explain))(frame).equals(whole)
    with pytest.raises(BadFeatures, match="Got a batch of list, wanted a frame"):
        explain([1, 2])


def test_rows_that_fail_have_a_line_with_the_reason(here):
    frame = numbers(50, 1)
    frame.loc[[3, 17], "a"] = 99.0
    found = scale.explain_frame(frame, "risk", model="mypkg.models:picky", rows=16)
    failed = found[found["error"].notna()]
    assert failed["row"].tolist() == [3, 17]
    assert failed["id"].tolist() == ["k3", "k17"]
    assert failed["error"].str.contains("99 is too much").all()
    assert failed[OURS].isna().all().all()
    assert found["row"].is_monotonic_increasing
    assert found["row"].nunique() == 50
    bad = texts(4, 1)
    bad.loc[2, "body"] = None
    said = scale.explain_frame(bad, "news", model=CLF).set_index("row")["error"]
    assert said[2] == "column 'body' has no text"
    with pytest.raises(BadBlackBox, match="failed on 20 rows in sequence"):
        scale.explain_frame(frame, "risk", model="mypkg.models:broken")


def test_the_model_is_made_once_in_a_process_and_may_be_handed_over(here):
    import mypkg.models

    made = []
    mypkg.models.counted = lambda: made.append(1) or mypkg.models.clf
    for seed in range(3):
        scale.explain_frame(texts(5, seed), "news", model="mypkg.models:counted()")
    assert len(made) == 1
    scale.explain_frame(texts(5, 0), "news", model="mypkg.models:counted()", model_batch=2)
    assert len(made) == 2, "asked otherwise, it is another"
    by_hand = scale.explain_frame(texts(5, 0), "news", model=mypkg.models.clf)
    pd.testing.assert_frame_equal(by_hand, scale.explain_frame(texts(5, 0), "news", model=CLF))


def test_an_iterator_of_frames_has_the_columns_of_the_schema(here):
    names = [part.split("`")[1] for part in scale.SCHEMA.split(", ")]
    for explainer, model, frame in (("risk", MODEL, numbers(30, 2)), ("news", CLF, texts(30, 2))):
        mapped = pickle.loads(pickle.dumps(scale.explain_in_pandas(explainer, model=model)))
        found = pd.concat(mapped(iter([frame.iloc[:10], frame.iloc[10:]])))
        assert list(found.columns) == names
        assert found["row"].unique().tolist() == list(range(30))
        whole = scale.explain_frame(frame, explainer, model=model)
        np.testing.assert_allclose(found["weight"], whole["weight"], atol=1e-6)
    kept = next(scale.explain_in_pandas("news", model=CLF, keys=["article_id"])(iter([texts(30, 2)])))
    assert list(kept.columns) == [part.split("`")[1] for part in scale.schema({"article_id": "int64"}).split(", ")]
    assert kept["article_id"].unique().tolist() == list(range(1000, 1030))


def test_what_cannot_be_done_is_said_at_once(here):
    with pytest.raises(BadFile, match=r"nowhere is not a saved explainer: it has no config\.json"):
        scale.Explain("nowhere", model=MODEL)
    with pytest.raises(BadSetting, match="rows=0, wanted a whole number of at least 1"):
        scale.Explain("risk", model=MODEL, rows=0)
    with pytest.raises(BadSetting, match="the type 'int' for 'id', wanted one of bool, int64"):
        scale.Explain("risk", model=MODEL, keys={"id": "int"})
    with pytest.raises(UnknownName, match="the batch has no column 'nope'"):
        scale.explain_frame(numbers(5, 0), "risk", model=MODEL, keys=["nope"])
    with pytest.raises(BadFeatures, match="The model takes the column 'd', which the batch has not"):
        scale.explain_frame(numbers(5, 0).drop(columns="d"), "risk", model=MODEL)


def test_dask_takes_it_as_any_function_of_frames(here):
    dask = pytest.importorskip("dask.dataframe")
    frame = numbers(90, 4)
    want = scale.explain_frame(frame, "risk", model=MODEL)
    parts = dask.from_pandas(frame, npartitions=3)
    made = parts.map_partitions(scale.explain_frame, "risk", model=MODEL, meta=want.iloc[:0])
    found = made.compute(scheduler="threads")
    assert found["id"].tolist() == want["id"].tolist()
    np.testing.assert_allclose(found["weight"], want["weight"], atol=1e-6)


def test_it_is_there_without_ray_spark_or_pandas():
    code = "import sys, aimwise; aimwise.scale.Explain; print({'ray', 'pyspark', 'pandas', 'pyarrow'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_a_folder_is_written_shown_and_replaced(here, capsys):
    Path("many").mkdir()
    for i in range(3):
        numbers(100, i).to_parquet(f"many/{i}.parquet")
    words = ["explain", "risk", "--model", MODEL, "--data", "many/*.parquet", "--batch-size", "64"]
    assert main([*words, "--out", "one.parquet"]) == 0
    assert main([*words, "--out", "out/", "--part-rows", "128"]) == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["_about.json", *(f"part-00000{i}.parquet" for i in range(3))]
    assert not Path("out.parts").exists()
    one, several = pd.read_parquet("one.parquet"), pd.read_parquet("out")
    pd.testing.assert_frame_equal(one, several)
    assert main([*words, "--out", "out", "--part-rows", "300"]) == 0
    assert [path.name for path in Path("out").glob("part-*")] == ["part-000000.parquet"], "a folder of ours is replaced"
    capsys.readouterr()
    assert main(["show", "out", "--row", "250"]) == 0
    assert "id=k50" in capsys.readouterr().out
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    assert main([*words, "--out", "mine"]) == 1
    assert main([*words, "--out", "one.parquet", "--part-rows", "9"]) == 1
    assert main([*words, "--out", "s3://bucket/out"]) == 1
    assert main([*words[:5], "s3://bucket/in", "--out", "out2"]) == 1
    assert main([*words, "--out", "out2", "--workers", "2"]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("aimwise")]
    for line, part in zip(
        said,
        ("mine exists and was not written", "--part-rows is for a folder", "no path of this", "Mount it", "for --engine ray"),
        strict=True,
    ):
        assert part in line
