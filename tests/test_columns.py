"""Columns: every kind of column survives masking with its own type, and fills are what they say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aimwise.errors import BadFeatures, BadSetting, UnknownName
from aimwise.features import Columns, Words, as_features
from aimwise.features.fills import FILLS

RANDOM = ("background", "mean", "median", "noise")


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def masked(columns, inputs, z):
    return columns.dim(columns.encode(inputs), torch.as_tensor(z, dtype=torch.float32), rng())


@pytest.mark.parametrize("fill", RANDOM)
def test_nothing_taken_away_gives_the_frame_back(frame, fill):
    columns = Columns(fill=fill).fit(frame)
    pd.testing.assert_frame_equal(masked(columns, frame, np.ones(frame.shape)), frame)


@pytest.mark.parametrize("fill", RANDOM)
@pytest.mark.parametrize("keep", [0.0, 0.4, 0.6])
def test_masking_keeps_every_column_type(frame, fill, keep):
    columns = Columns(fill=fill).fit(frame)
    out = masked(columns, frame, np.full(frame.shape, keep))
    assert list(out.columns) == list(frame.columns)
    for name in frame.columns:
        assert out[name].dtype == frame[name].dtype, name


def test_hard_columns_are_kept_whole_or_not_at_all(frame):
    columns = Columns(fill="mean").fit(frame)
    soft = dict(zip(columns.names, columns.soft.tolist(), strict=True))
    assert {n for n, s in soft.items() if s} == {"number", "single"}
    out = masked(columns, frame, np.full(frame.shape, 0.6))
    pd.testing.assert_series_equal(out["text"], frame["text"])
    kept, mean = frame["number"].to_numpy(), np.nanmean(frame["number"])
    np.testing.assert_allclose(out["number"].to_numpy(), 0.6 * kept + 0.4 * mean, rtol=1e-6, equal_nan=True)


def test_fills_by_hand(frame):
    empty = {fill: masked(Columns(fill=fill).fit(frame), frame, np.zeros(frame.shape)) for fill in ("mean", "median")}
    assert empty["mean"]["number"].iloc[0] == pytest.approx(frame["number"].mean())
    assert empty["median"]["number"].iloc[0] == pytest.approx(frame["number"].median())
    assert empty["mean"]["whole"].iloc[0] == round(frame["whole"].mean())
    assert empty["mean"]["text"].iloc[0] == frame["text"].mode()[0]
    assert empty["mean"]["level"].iloc[0] == frame["level"].mode()[0]
    order = ["low", "mid", "high"]
    middle = sorted(frame["grade"].dropna(), key=order.index)[frame["grade"].notna().sum() // 2]
    assert empty["median"]["grade"].iloc[0] == middle
    assert abs(empty["mean"]["day"].iloc[0] - frame["day"].mean()) < pd.Timedelta("1ms")


def test_background_takes_all_absent_columns_from_one_training_row(table):
    columns = Columns(fill="background").fit(table)
    z = np.zeros(table.shape)
    z[:, 0] = 1
    out = masked(columns, table, z)
    np.testing.assert_array_equal(out[:, 0], table[:, 0])
    rows = {tuple(row) for row in table[:, 1:]}
    assert all(tuple(row) in rows for row in out[:, 1:])
    assert len({tuple(row) for row in out[:, 1:]}) > 50


def test_noise_is_uniform_within_one_standard_deviation(table):
    columns = Columns(fill="noise").fit(table)
    out = masked(columns, np.repeat(table, 20, 0), np.zeros((20 * len(table), 5)))
    scaled = (out - table.mean(0)) / table.std(0)
    assert np.abs(scaled).max() <= 1
    assert np.abs(scaled.mean(0)).max() < 0.05
    np.testing.assert_allclose(scaled.std(0), 1 / np.sqrt(3), atol=0.02)


def test_constant_fill_for_all_and_for_each(frame):
    only = frame[["number", "text"]]
    out = masked(Columns(fill="constant", value={"number": 7, "text": "new"}).fit(only), only, np.zeros(only.shape))
    assert (out["number"] == 7).all()
    assert (out["text"] == "new").all()
    np.testing.assert_array_equal(masked(Columns(fill="constant", value=0).fit(np.eye(3)), np.eye(3), np.zeros((3, 3))), 0)
    with pytest.raises(BadSetting, match="needs a value"):
        Columns(fill="constant").fit(only)
    with pytest.raises(BadSetting, match="'number' is 'x', wanted a number"):
        Columns(fill="constant", value={"number": "x", "text": "a"}).fit(only)
    with pytest.raises(BadSetting, match="no entry for column 'text'"):
        Columns(fill="constant", value={"number": 0}).fit(only)


def test_levels_never_seen_are_kept_and_can_be_filled(frame):
    columns = Columns(fill="mean").fit(frame)
    new = frame.head(4).assign(text="never seen", level=pd.Categorical(["other"] * 4))
    assert set(masked(columns, new, np.ones(new.shape))["text"]) == {"never seen"}
    empty = masked(columns, new, np.zeros(new.shape))
    assert set(empty["text"]) == {frame["text"].mode()[0]}
    assert set(empty["level"]) == {frame["level"].mode()[0]}


def test_a_group_of_dummies_is_one_hard_feature():
    jobs = pd.get_dummies(pd.Series(["cook", "nurse", "cook", "smith", "cook"] * 8), prefix="job", dtype=float)
    data = jobs.assign(age=np.arange(40.0))
    columns = Columns(fill="mean", groups={"job": list(jobs.columns)}).fit(data)
    assert columns.names == ("job", "age")
    assert columns.soft.tolist() == [False, True]
    out = masked(columns, data, np.tile([0.0, 1.0], (40, 1)))
    assert (out["job_cook"] == 1).all()
    assert (out[["job_nurse", "job_smith"]] == 0).all(axis=None)
    noisy = masked(columns.filled("noise"), data, np.zeros((40, 2)))
    assert (noisy[list(jobs.columns)].sum(axis=1) == 1).all()
    assert columns.values(columns.encode(data))[:2].tolist() == [["job_cook", 0.0], ["job_nurse", 1.0]]


def test_a_group_of_numbers_is_one_feature_and_shows_its_values(table):
    frame = pd.DataFrame(table, columns=list("abcde"))
    columns = Columns(groups={"pair": ["a", "c"]}).fit(frame)
    assert columns.names == ("pair", "b", "d", "e")
    assert columns.spread(columns.encode(frame), torch.tensor([[1.0, 2, 3, 4]])).tolist() == [[1, 2, 1, 3, 4]]
    assert columns.values(columns.encode(frame))[0, 0] == f"a={table[0, 0]}, c={table[0, 2]}"


def test_kinds_can_be_said(table):
    codes = np.random.default_rng(0).integers(0, 4, size=(60, 2)).astype(float)
    columns = Columns(fill="mean", kinds={"column 1": "category"}).fit(codes)
    assert columns.soft.tolist() == [True, False]
    out = masked(columns, codes, np.zeros((60, 2)))
    values, counts = np.unique(codes[:, 1], return_counts=True)
    assert set(out[:, 1]) == {values[counts.argmax()]}


def test_values_are_what_people_know(frame):
    values = Columns().fit(frame).values(Columns().fit(frame).encode(frame))
    shown = dict(zip(frame.columns, values[20], strict=True))
    assert shown["text"] == frame["text"][20]
    assert shown["day"].startswith(str(frame["day"][20].date()))
    assert values[4, 6] is None  # a missing text
    assert Columns().fit(np.eye(3)).values(Columns().fit(np.eye(3)).encode(np.eye(3))).dtype == float


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy, lambda a: torch.from_numpy(a).int(), lambda a: a > 0])
@pytest.mark.parametrize("fill", RANDOM)
def test_arrays_and_tensors_keep_their_type(table, make, fill):
    inputs = make(table)
    columns = Columns(fill=fill).fit(inputs)
    assert np.asarray(masked(columns, inputs, np.ones(table.shape)) == inputs).all()
    out = masked(columns, inputs, np.zeros(table.shape))
    assert out.dtype == inputs.dtype
    assert type(out) is type(inputs)


def test_object_arrays_are_tables_too():
    data = np.array([["a", 1.5], ["b", 2.5], ["a", 3.5]], dtype=object)
    columns = Columns(fill="mean").fit(data)
    out = masked(columns, data, np.array([[1, 0], [0, 1], [1, 1.0]]))
    assert out.tolist() == [["a", 2.5], ["a", 2.5], ["a", 3.5]]


def test_columns_in_another_order_are_put_right(frame):
    columns = Columns().fit(frame)
    turned = frame[frame.columns[::-1]]
    torch.testing.assert_close(columns.encode(turned).x, columns.encode(frame).x, equal_nan=True)


@pytest.mark.parametrize(
    ("settings", "data", "error", "message"),
    [
        ({}, np.zeros((4, 0)), BadFeatures, r"\(n, columns\), got \(4, 0\)"),
        ({}, np.zeros(4), BadFeatures, r"got \(4,\)"),
        ({}, np.zeros((1, 3)), BadFeatures, "at least two rows"),
        ({}, np.zeros((3, 3), dtype=complex), BadFeatures, "dtype complex128"),
        ({"column_names": ["a"]}, np.zeros((3, 2)), BadFeatures, "1 column names"),
        ({"fill": "nope"}, np.eye(3), UnknownName, "no fill 'nope'"),
        ({"fill": "meen"}, np.eye(3), UnknownName, "Did you mean 'mean'"),
        ({"kinds": {"x": "number"}}, np.eye(3), UnknownName, "no column 'x'"),
        ({"kinds": {"column 0": "numeric"}}, np.eye(3), UnknownName, "kind of column 'numeric'"),
        ({"groups": {"g": ["column 9"]}}, np.eye(3), UnknownName, "column 9"),
        ({"groups": {"g": ["column 0"], "h": ["column 0"]}}, np.eye(3), BadSetting, "in the groups 'g' and 'h'"),
        ({"groups": {"column 1": ["column 0"]}}, np.eye(3), BadSetting, "name of a column outside it"),
        ({"background": 0}, np.eye(3), BadSetting, "at least one row"),
        ({}, pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), BadFeatures, "two columns named 'a'"),
        ({}, pd.DataFrame({"a": [[1], [2]]}), BadFeatures, "Column 'a'"),
    ],
)
def test_bad_tables_and_settings_are_named(settings, data, error, message):
    with pytest.raises(error, match=message):
        Columns(**settings).fit(data)


def test_another_table_than_at_fit_is_named(frame, table):
    columns = Columns().fit(frame)
    with pytest.raises(BadFeatures, match="missing: text; not known: txt"):
        columns.encode(frame.rename(columns={"text": "txt"}))
    with pytest.raises(BadFeatures, match="fitted on a DataFrame, got an array"):
        columns.encode(table)
    with pytest.raises(BadFeatures, match="Column 'number' is read as number and holds 'x'"):
        columns.encode(frame.assign(number="x"))
    with pytest.raises(BadFeatures, match=r"shape \(n, 5\), got \(240, 4\)"):
        Columns().fit(table).encode(table[:, :4])


def test_sparse_matrices_are_refused_with_advice():
    from scipy.sparse import csr_array

    with pytest.raises(BadFeatures, match="toarray"):
        Columns().fit(csr_array(np.eye(3)))


def test_features_are_recognised_or_asked_for():
    assert isinstance(as_features(None, [[1.0, 2.0], [3.0, 4.0]]), Columns)
    assert isinstance(as_features(None, ["a text", "another"]), Words)
    assert isinstance(as_features(None, pd.Series(["a text", "another"])), Words)
    assert isinstance(as_features(None, pd.DataFrame({"a": [1, 2]})), Columns)
    with pytest.raises(BadFeatures, match=r"shape \(2,\)"):
        as_features(None, [1.0, 2.0])
    with pytest.raises(BadFeatures, match="differ from row to row"):
        as_features(None, [[1.0], [1.0, 2.0]])


def test_settings_are_stored_and_fit_gives_a_copy(table):
    columns = Columns(fill="mean")
    fitted = columns.fit(table)
    assert not columns.fitted
    assert fitted.fitted
    assert as_features(fitted, table) is fitted
    assert fitted.filled("noise").fill == "noise"
    assert fitted.fill == "mean"


def test_restored_columns_encode_and_mask_the_same(frame):
    columns = Columns(fill="noise").fit(frame)
    back = Columns.restore(columns.config(), columns.tensors())
    torch.testing.assert_close(back.encode(frame).x, columns.encode(frame).x, equal_nan=True)
    z = np.random.default_rng(0).integers(0, 2, frame.shape)
    pd.testing.assert_frame_equal(masked(back, frame, z), masked(columns, frame, z))


numbers = st.floats(-1000, 1000, width=16) | st.just(float("nan"))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), fill=st.sampled_from(RANDOM))
def test_kept_cells_are_untouched_and_shapes_stay(data, fill):
    kind = data.draw(st.sampled_from([np.float64, np.float32, np.int64, np.bool_]))
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=8))
    inputs = data.draw(hnp.arrays(kind, shape, elements=numbers if np.dtype(kind).kind == "f" else None))
    z = data.draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 1)))
    columns = Columns(fill=fill).fit(inputs)
    batch = columns.encode(inputs)
    out = masked(columns, inputs, z)
    assert out.shape == shape
    assert out.dtype == inputs.dtype
    np.testing.assert_array_equal(out[z == 1], inputs[z == 1])
    assert batch.present.all()
    assert batch.x.shape == shape
    again = columns.dim(batch, torch.as_tensor(z, dtype=torch.float32), rng())
    np.testing.assert_array_equal(again, out)


def test_every_fill_is_tested_here():
    assert set(RANDOM) | {"constant"} == set(FILLS)


def test_dates_of_any_year_and_unit_come_back_as_they_were():
    days = pd.Series(["9999-12-31", "1500-06-01", "2020-01-01", None], dtype="datetime64[us]")
    for unit in ("s", "ms", "us"):
        frame = pd.DataFrame(
            {"day": days.astype(f"datetime64[{unit}]"), "zone": days.astype(f"datetime64[{unit}]").dt.tz_localize("UTC")}
        )
        columns = Columns(fill="median").fit(frame)
        pd.testing.assert_frame_equal(masked(columns, frame, np.ones((4, 2))), frame)
        gone = masked(columns, frame, np.zeros((4, 2)))
        assert (gone.dtypes == frame.dtypes).all()
        assert gone["day"].iloc[0] == pd.Timestamp("2020-01-01")


def test_kept_cells_are_the_very_cells():
    cells = pd.Series([None, np.nan, True, 1, 1.0, "1", pd.NA], dtype=object)
    large = pd.array([2**60 + k for k in range(6)] + [None], dtype="Int64")
    frame = pd.DataFrame({"cells": cells, "large": large})
    columns = Columns().fit(frame)
    out = masked(columns, frame, np.ones((7, 2)))
    assert [type(v) for v in out["cells"]] == [type(v) for v in cells]
    assert out["large"].tolist()[:6] == [2**60 + k for k in range(6)]
    assert out["large"].isna().tolist() == [False] * 6 + [True]


def test_columns_that_read_the_same_are_refused():
    with pytest.raises(BadFeatures, match="called '1' when written as text"):
        Columns().fit(pd.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]))
    with pytest.raises(BadFeatures, match="called 'a'"):
        Columns(column_names=["a", "a"]).fit(np.eye(2))


def test_labels_that_are_no_strings_can_be_named_in_settings():
    frame = pd.DataFrame(np.eye(4), columns=[0, 1, 2, 3])
    columns = Columns(fill="constant", value={0: 5, 1: 5, 2: 5, 3: 5}, groups={"pair": [0, 1]}, kinds={3: "category"}).fit(frame)
    assert columns.names == ("pair", "2", "3")


def test_rows_of_a_service_are_read_as_the_types_they_were_learned_with(frame):
    columns = Columns(fill="mean").fit(frame)
    one = frame.iloc[[20]].astype(object)
    torch.testing.assert_close(columns.encode(one).x, columns.encode(frame.iloc[[20]]).x, equal_nan=True)
    nothing = pd.DataFrame([dict.fromkeys(frame.columns)])
    assert masked(columns, nothing, np.zeros((1, frame.shape[1])))["text"].tolist() == [frame["text"].mode()[0]]


def test_whole_numbers_after_a_fit_on_floats_are_floats(table):
    columns = Columns(fill="mean").fit(table)
    whole = np.zeros((3, 5), dtype=int)
    assert masked(columns, whole, np.zeros((3, 5))).dtype == float
    np.testing.assert_allclose(masked(columns, whole, np.zeros((3, 5)))[0], table.mean(0))


def test_rows_of_numbers_and_strings_keep_both():
    rows = [[1.5, "a"], [2.5, "b"], [3.5, "a"]]
    out = masked(Columns(fill="mean").fit(rows), rows, np.ones((3, 2)))
    assert out.tolist() == rows


def test_rows_made_of_others_have_each_feature_from_some_row():
    frame = pd.DataFrame({"a": range(20), "b": [f"l{i % 7}" for i in range(20)], "c": np.arange(20) / 3, "d": np.arange(20) * 2})
    columns = Columns(groups={"cd": ["c", "d"], "a": ["a"], "b": ["b"]}).fit(frame)
    batch = columns.encode(frame)
    new = columns.enlarged(batch, 300, torch.Generator().manual_seed(0))
    again = columns.enlarged(batch, 300, torch.Generator().manual_seed(0))
    assert len(new) == 320
    assert torch.equal(new.x[:20], batch.x)
    assert torch.equal(new.x, again.x)
    made = columns.dim(new, torch.ones(320, 3), torch.Generator())
    assert made.dtypes.tolist() == frame.dtypes.tolist()
    assert set(made["a"]) <= set(frame["a"])
    assert set(made["b"]) <= set(frame["b"])
    assert np.allclose(made["d"], 6 * made["c"])  # a group comes from one row
    own = made["a"].to_numpy()[20:]
    same = np.mean(np.abs(made["c"].to_numpy()[20:] * 3 - own) < 1e-9)
    assert 0.2 < same < 0.4  # a quarter has both from the same row, and a few by chance


@pytest.mark.parametrize("form", [np.asarray, torch.tensor])
def test_arrays_and_tensors_are_enlarged_in_their_form(form):
    values = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    columns = Columns().fit(form(values))
    new = columns.enlarged(columns.encode(form(values)), 10, torch.Generator().manual_seed(1))
    made = columns.dim(new, torch.ones(40, 4), torch.Generator())
    assert type(made) is type(form(values))
    for j in range(4):
        assert np.isin(np.asarray(made)[:, j], values[:, j]).all()
