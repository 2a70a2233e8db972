"""Reading rows in portions and writing them in parts, without a process around it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from aimwise.errors import BadFeatures, BadFile, BadSetting, UnknownName
from aimwise.io.inputs import Form, read, types_of
from aimwise.io.opened import opened
from aimwise.io.roles import Given, Hints, Roles, roles_of
from aimwise.io.sample import sampled
from command_line import numbers, texts


class Quiet:
    def update(self, n):
        pass


def portions(place, wanted, size, **said):
    return list(opened([str(p) for p in (place if isinstance(place, list) else [place])], **said).portions(wanted, size))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "tsv"])
def test_every_format_gives_the_same_cuts(suffix, tmp_path):
    frame, path = numbers(2500, 0), tmp_path / f"data.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path, row_group_size=333)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    found = portions(path, ["id", "a"], 700)
    assert [(p.start, p.stop) for p in found] == [(0, 700), (700, 1400), (1400, 2100), (2100, 2500)]
    assert np.concatenate([p.numbers for p in found]).tolist() == list(range(2500))
    assert [v for p in found for v in p.frame["id"]] == frame["id"].tolist()
    np.testing.assert_allclose([float(v) for p in found for v in p.frame["a"]], frame["a"])
    again = portions(path, ["id", "a"], 700)
    assert [p.digest() for p in again] == [p.digest() for p in found]
    assert len({p.digest() for p in found}) == 4


def test_broken_lines_of_a_long_csv_keep_every_number_right(tmp_path, monkeypatch):
    monkeypatch.setattr("aimwise.io.tables.CSV_BLOCK", 4096)
    rng = np.random.default_rng(0)
    bad = set(rng.choice(5000, 60, replace=False).tolist()) | {0, 4998, 4999}
    lines = ["id,text"] + [f"{i},a,b" if i in bad else f'{i},"line {i}\nand ""more"""' for i in range(5000)]
    (tmp_path / "a.csv").write_text("\n".join(lines[:3001]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(["id,text", *lines[3001:]]) + "\n")
    found = portions(tmp_path, ["id", "text"], 512)
    assert {n for p in found for n in p.broken} == bad
    for portion in found:
        assert portion.frame["id"].astype(int).tolist() == portion.numbers.tolist()
        assert all(p.startswith("line") and p.endswith('"more"') for p in portion.frame["text"])
    assert found[-1].stop == 5000


def test_texts_lines_and_folders(tmp_path):
    for name in ("x/a.txt", "x/b.txt", "y/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    (tmp_path / "y" / "d.txt").write_bytes(b"caf\xe9")
    (found,) = portions(tmp_path, ["file", "text", "folder"], 10)
    assert found.frame["file"].tolist() == ["x/a.txt", "x/b.txt", "y/c.txt"]
    assert found.frame["folder"].tolist() == ["x", "x", "y"]
    assert list(found.broken) == [3]
    (tmp_path / "all.txt").write_text("one\n\ntwo\n")
    (lines,) = portions(tmp_path / "all.txt", ["text"], 10, format="lines")
    assert lines.frame["text"].tolist() == ["one", "two"]


def test_what_a_place_is_must_be_certain(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    with pytest.raises(BadFile, match="several kinds"):
        opened([str(tmp_path)])
    with pytest.raises(BadFile, match="no file or folder"):
        opened([str(tmp_path / "c.csv")])
    (tmp_path / "d.dat").write_text("x")
    with pytest.raises(BadFile, match="Cannot tell what"):
        opened([str(tmp_path / "d.dat")])
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    with pytest.raises(BadFile, match="two columns named 'a'"):
        opened([str(tmp_path / "twice.csv")])
    (tmp_path / "header.csv").write_text("a,b\n")
    with pytest.raises(BadFile, match="has no rows"):
        portions(tmp_path / "header.csv", ["a"], 10)
    with pytest.raises(BadSetting, match="read alone"):
        opened(["-", "a.csv"])


def test_roles_are_given_remembered_or_seen(tmp_path):
    texts(30, 0).to_parquet(tmp_path / "t.parquet")
    numbers(30, 0).assign(label=1, age=3).to_csv(tmp_path / "n.csv", index=False)
    source = opened([str(tmp_path / "t.parquet")])
    assert roles_of(source, Given(), Hints()) == Roles("text", ("body",), ("article_id",), "label")
    assert roles_of(source, Given(text="label", keys=()), Hints()) == Roles("text", ("label",), (), None)
    table = opened([str(tmp_path / "n.csv")])
    assert roles_of(table, Given(), Hints()) == Roles("table", ("a", "b", "c", "d", "age"), ("id",), "label")
    assert roles_of(table, Given(), Hints("table", ("b", "a"))).inputs == ("b", "a")
    before = Roles("table", ("c",), ("id",), None)
    assert roles_of(table, Given(), Hints("table", None, before)).inputs == ("c",)
    with pytest.raises(BadFeatures, match=r"takes the column 'zz', which .* has not"):
        roles_of(table, Given(), Hints("table", ("a", "zz")))
    with pytest.raises(UnknownName, match="has no column 'zz'; it has 'id'"):
        roles_of(table, Given(text="zz"), Hints())
    with pytest.raises(BadFeatures, match="--text-column NAME"):
        roles_of(table, Given(), Hints("text"))


def test_types_of_csv_cells_are_those_of_most(tmp_path):
    frame = pd.DataFrame(
        {
            "whole": [str(i) for i in range(40)],
            "real": [f"{i}.5" for i in range(40)],
            "holes": ["", "NA", *map(str, range(38))],
            "flag": ["True", "false"] * 20,
            "word": ["x", "1"] * 20,
            "typo": ["1"] * 39 + ["one"],
        }
    )
    types = types_of(frame, list(frame.columns))
    assert types == {"whole": "int64", "real": "float64", "holes": "float64", "flag": "bool", "word": "str", "typo": "float64"}
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = opened([str(tmp_path / "t.csv")])
    (portion,) = source.portions(list(frame.columns), 100)
    rows = read(portion, Roles("table", tuple(frame.columns)), Form(types=types))
    assert rows.broken == {39: "column 'typo' is 'one', wanted a number"}
    assert [str(t) for t in rows.inputs.dtypes][:4] == ["int64", "float64", "float64", "bool"]
    assert rows.inputs["holes"].isna().sum() == 2


def test_a_sample_is_fair_in_order_and_the_same_for_a_seed(tmp_path):
    numbers(10_000, 0).to_parquet(tmp_path / "n.parquet")
    roles = Roles("table", ("a",))

    def drawn(seed, most=500):
        return sampled(opened([str(tmp_path / "n.parquet")]), roles, most, seed, Quiet())

    portion, total = drawn(0)
    assert (total, len(portion.numbers)) == (10_000, 500)
    assert (np.diff(portion.numbers) > 0).all()
    np.testing.assert_array_equal(portion.numbers, drawn(0)[0].numbers)
    assert set(portion.numbers) != set(drawn(1)[0].numbers)
    counts = sum(np.histogram(drawn(seed)[0].numbers, bins=10, range=(0, 10_000))[0] for seed in range(20))
    assert abs(counts - 1000).max() < 150, "every tenth of the file has its share"
    assert len(drawn(0, most=20_000)[0].numbers) == 10_000


def test_images_in_the_form_a_model_takes(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for i in range(3):
        image.fromarray(np.full((6, 4, 3), 100 * i, dtype=np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "3.png").write_bytes(b"no image")
    source = opened([str(tmp_path)])
    roles = roles_of(source, Given(), Hints())
    (portion,) = source.portions(roles.wanted, 10)
    whole = read(portion, roles, Form(size=(6, 4)))
    assert (whole.inputs.shape, whole.inputs.dtype) == ((3, 6, 4, 3), np.uint8)
    assert list(whole.broken) == [3]
    assert whole.keys == {"file": ["0.png", "1.png", "2.png"]}
    first = read(portion, roles, Form(pictures="chw", size=(3, 2), mode="L"))
    assert first.inputs.shape == (3, 1, 3, 2)
    np.testing.assert_allclose(first.inputs[1], 100 / 255, atol=1e-6)


def test_token_ids_are_filled_up(tmp_path):
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"ids": row}) for row in ([5, 6, 7], [8], None, "x", [])) + "\n")
    source = opened([str(tmp_path / "t.jsonl")])
    (portion,) = source.portions(["ids"], 10)
    rows = read(portion, Roles("ids", ("ids",)), Form(pad=1))
    assert rows.inputs.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert sorted(rows.broken) == [2, 3, 4]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_how_much_is_read_is_known_on_the_way(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr("aimwise.io.tables.CSV_BLOCK", 1 << 14)
    frame, path = numbers(20_000, 0), tmp_path / f"n.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_json(path, orient="records", lines=True)
    source = opened([str(path)])
    shares = [source.share() for _ in source.portions(["a"], 2000)]
    np.testing.assert_allclose(shares, np.arange(1, 11) / 10, atol=0.2)
    assert shares[-1] > 0.97
    assert shares[0] < 0.4
