"""Spark in local mode: mapInPandas with the schema as it stands, and with keys."""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from aimwise import scale
from command_line import filled, fitted, inside, numbers, texts

sql = pytest.importorskip("pyspark.sql")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: install default-jre-headless"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with inside(filled(tmp_path_factory.mktemp("user"))) as folder:
        fitted()
        yield folder


@pytest.fixture(scope="module")
def spark(here):
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")}
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"})
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in {**QUIET, "spark.sql.warehouse.dir": str(here / "warehouse")}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def test_rows_keep_their_numbers_and_their_keys(here, spark):
    from pyspark.sql import functions

    frame = numbers(200, 6)
    frame.loc[5, "a"] = 99.0
    given = spark.createDataFrame(frame).repartition(3)
    data = given.withColumn("number", functions.monotonically_increasing_id()).cache()
    explain = scale.explain_in_pandas("risk", model="mypkg.models:picky", keys=["id", "number"], rows=64)
    schema = scale.schema({"id": "string", **dict(data.select("number").dtypes)})
    found = data.mapInPandas(explain, schema=schema).toPandas()
    assert (found["row"] == found["number"]).all()
    assert found["row"].nunique() == 200
    failed = found[found["error"].notna()]
    assert failed["id"].tolist() == ["k5"]
    assert "99 is too much" in failed["error"].iloc[0]
    want = scale.explain_frame(frame[frame["id"] != "k5"], "risk", model="mypkg.models:numbers")
    order = ["id", "place", "class"]
    found, want = (one[one["error"].isna()].sort_values(order, ignore_index=True) for one in (found, want))
    np.testing.assert_allclose(found["weight"], want["weight"], atol=1e-6)
    np.testing.assert_allclose(found["value"].astype(float), want["value"])
    for name in ("id", "prediction", "feature", "class", "rank"):
        assert found[name].tolist() == want[name].tolist()


def test_the_line_of_the_manual(here, spark):
    frame = texts(40, 6)
    df = spark.createDataFrame(frame).coalesce(1)
    made = df.mapInPandas(scale.explain_in_pandas("news", model="mypkg.models:clf"), schema=scale.SCHEMA)
    found, want = made.toPandas(), scale.explain_frame(frame, "news", model="mypkg.models:clf")
    pd.testing.assert_frame_equal(found, want[list(found.columns)], check_dtype=False, atol=1e-6)
