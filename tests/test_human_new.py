"""A study made by `aimwise study new` from texts, tables and pictures, its files, and what is refused."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import aimwise
from aimwise.cli import main
from aimwise.errors import BadFile
from aimwise.human.reader import taught
from aimwise.human.shown import cell, shown
from aimwise.human.survey import NEUTRAL, read_survey
from command_line import CLASSES, TOPICS, filled, inside
from human_study import survey


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = filled(tmp_path_factory.mktemp("user"))
    with inside(folder):
        from mypkg import models

        train = pd.read_parquet("train.parquet")
        for name in ("occlusion", "random"):
            aimwise.METHODS[name]().fit(models.clf, train["body"].tolist()).save(folder / name)
        for name, more in (("occlusion", "tidy.parquet --top 5"), ("random", "wide.parquet --wide")):
            words = f"explain {name} --model mypkg.models:clf --data train.parquet --quiet --out {more}"
            assert main(words.split()) == 0
        table = pd.read_csv("numbers.csv").drop(columns="id")
        table["target"] = (models.numbers(table)[:, 1] > 0.5).astype(int)
        table.loc[:39, "target"] = 1 - table.loc[:39, "target"]  # the model is wrong about these
        table.to_csv("labelled.csv", index=False)
        aimwise.METHODS["occlusion"]().fit(models.numbers, table[list("abcd")], class_names=("no", "yes")).save(
            folder / "columns"
        )
    return folder


def new(here, line):
    with inside(here):
        return main(["study", "new", *line.split()])


BOTH = "--explainers ours=occlusion,chance=random --model mypkg.models:clf --data train.parquet"


def test_texts_that_the_model_got_right_and_their_key_words(here, capsys):
    assert new(here, f"words.toml {BOTH} --items 20 --top 3 --seed 4") == 0
    said = capsys.readouterr()
    assert "study: words.toml (20 items, methods ours, chance)" in said.out
    study, data = read_survey(here / "words.toml"), pd.read_parquet(here / "train.parquet")
    assert (study.methods, study.choices, study.kind, study.top) == (("ours", "chance"), tuple(CLASSES), "text", 3)
    assert len({item.row for item in study.items}) == 20
    for item in study.items:
        assert CLASSES[item.truth] == data["label"][item.row] == CLASSES[item.prediction]
        assert item.source == data["body"][item.row]
        assert all(len(words) == 3 and set(words) <= set(item.source.split()) for words in item.shown.values())
        assert item.shown["ours"][0] in TOPICS[item.truth]
    assert study.reader == "100 other texts"
    right = {m: np.mean([item.reader[m] == item.truth for item in study.items]) for m in study.methods}
    assert right["ours"] > 0.9 > right["chance"]
    text = (here / "words.toml").read_text()
    assert "(no human)" in text
    assert study.minutes == 4


def test_the_same_seed_makes_the_same_study_but_for_its_key(here):
    for name in ("one", "two"):
        assert new(here, f"{name}.toml {BOTH} --items 6 --seed 1") == 0
    one, two = read_survey(here / "one.toml"), read_survey(here / "two.toml")
    assert one.items == two.items
    assert one.key != two.key


def test_saved_explanations_do_as_well_as_folders(here, capsys):
    line = "--explainers ours=tidy.parquet,chance=wide.parquet --data train.parquet --items 20 --top 3 --seed 4"
    assert new(here, f"files.toml {line}") == 0
    files = read_survey(here / "files.toml")
    assert (
        new(here, f"mixed.toml --explainers ours=occlusion,chance=wide.parquet --model mypkg.models:clf {line.split(' ', 2)[2]}")
        == 0
    )
    mixed = read_survey(here / "mixed.toml")
    assert [i.row for i in mixed.items] == [i.row for i in files.items]
    assert [i.shown for i in mixed.items] == [i.shown for i in files.items]
    assert all(item.truth == item.prediction for item in files.items)


def test_without_labels_the_prediction_is_the_right_answer_if_one_asks_for_that(here, capsys):
    assert new(here, "bare.toml --explainers ours=tidy.parquet --items 5") == 1
    assert "the true classes are not known" in capsys.readouterr().err
    assert new(here, "bare.toml --explainers ours=tidy.parquet --items 5 --any") == 0
    study = read_survey(here / "bare.toml")
    assert (study.truth, study.reader) == ("prediction", "")
    assert all(item.truth == item.prediction for item in study.items)


def test_tables_show_the_top_columns_with_their_values(here):
    line = "--explainers ours=columns --model mypkg.models:numbers --data labelled.csv --top 2 --items 30"
    assert new(here, f"table.toml {line} --classes no,yes") == 0
    study, data = read_survey(here / "table.toml"), pd.read_csv(here / "labelled.csv")
    assert study.kind == "table"
    assert study.choices == ("no", "yes")
    for item in study.items:
        assert item.row >= 40  # the model was wrong about the first
        assert item.truth == data["target"][item.row]
        for name, value in item.shown["ours"]:
            assert float(value) == pytest.approx(data[name][item.row])
    assert new(here, f"wrong.toml {line} --classes no,yes --any --seed 1") == 0
    wrong = read_survey(here / "wrong.toml")
    assert any(item.truth != item.prediction for item in wrong.items)


def test_pictures_show_the_kept_patches_and_the_rest_is_grey(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 100, (12, 8, 8), dtype=np.uint8)
    images[::2, :4, :4] += 150

    def bright(batch):
        chance = 1 / (1 + np.exp(-(batch[:, :4, :4].mean((1, 2)) - 125) / 10))
        return np.stack([1 - chance, chance], 1)

    explainer = aimwise.METHODS["occlusion"]().fit(bright, images, features=aimwise.Patches(4, fill="zero"))
    explainer.explain(images).to_json(tmp_path / "seen.json")
    line = f"study new {tmp_path / 'seen.toml'} --explainers ours={tmp_path / 'seen.json'} --top 1 --items 4 --any"
    assert main(line.split()) == 0
    study = read_survey(tmp_path / "seen.toml")
    assert study.kind == "image"
    from PIL import Image

    for item in study.items:
        picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(item.shown["ours"].split(",")[1]))))
        assert (picture[4:] == 128).all()
        if item.row % 2 == 0:
            assert (picture[:4, :4] == images[item.row, :4, :4]).all()
            assert (picture[:4, 4:] == 128).all()


def test_a_method_of_one_class_is_shown_for_the_class_it_explains(here):
    with inside(here):
        from mypkg import models

        texts = pd.read_parquet("train.parquet")["body"].tolist()
        one = aimwise.METHODS["l2x"](epochs=1).fit(models.clf, texts, max_queries=2000).explain(texts[:3])
    assert one.only is not None
    assert [len(shown(row, 4)) for row in one] == [4, 4, 4]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"x.toml {BOTH} --items 500", "Wanted 500 inputs, but only 120 of 120 are ones that the black box got right"),
        ("x.txt --explainers a=occlusion", "wanted a name that ends in .toml"),
        ("x.toml --explainers a=occlusion --data train.parquet", "need --model"),
        ("x.toml --explainers a=nowhere.parquet", "There is no file nowhere.parquet"),
        (
            "x.toml --explainers a=tidy.parquet,b=columns --model mypkg.models:numbers --classes no,yes --data labelled.csv",
            "Explain one model",
        ),
        (f"x.toml --explainers a/b=occlusion {BOTH.split(' ', 2)[2]}", "Got the method name 'a/b'"),
    ],
)
def test_what_cannot_be_a_study_is_refused(here, capsys, line, said):
    assert new(here, line) == 1
    assert said in capsys.readouterr().err
    assert not (here / "x.toml").exists()


def test_a_study_is_not_replaced_by_accident(here, capsys):
    assert new(here, f"mine.toml {BOTH} --items 3") == 0
    assert new(here, f"mine.toml {BOTH} --items 3") == 1
    assert "answers may belong to it" in capsys.readouterr().err
    assert new(here, f"mine.toml {BOTH} --items 3 --force") == 0
    with pytest.raises(SystemExit):
        new(here, "y.toml --explainers aim")


def test_a_study_is_read_as_it_was_written_also_with_odd_words(tmp_path):
    odd = 'Quotes " and \\ and \x7f\x01 tabs\t, """ three, ünïcode 🙂'
    made = survey(tmp_path / "s.toml", title=odd, consent=f"{odd}\n\n{odd}\n", choices=('a "b"', "c\\d"))
    made.save()
    assert read_survey(made.path) == made
    assert read_survey(made.path).fingerprint == made.fingerprint
    assert replace(made, title="Other").fingerprint == made.fingerprint
    assert replace(made, seed=1).fingerprint != made.fingerprint


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("minutes = 5", "minutes = 'five'", "minutes is 'five', wanted a whole number"),
        ("minutes = 5", "", "minutes is nothing, wanted a whole number"),
        ("once = false", "once = 0", "once is 0, wanted true or false"),
        ('["negative", "positive"]', '["negative"]', "1 choices, .* 2 classes"),
        ('["negative", "positive"]', '["negative", "negative"]', "wanted names that are all different"),
        ('["negative", "positive"]', '["negative", "can\'t decide"]', "one of the choices too"),
        ('["aim", "l2x", "lime"]', '["aim", "shap"]', "an item lacks a method"),
        ("seed = 0", "seed = 0\ncolour = 3", "entry colour is not known"),
        ("seed = 0", "seed = ", "not a readable TOML file"),
        ('kind = "text"', 'kind = "table"', "does not fit"),
        ('kind = "text"', 'kind = "sound"', "wanted kind one of"),
    ],
)
def test_a_file_that_was_edited_wrongly_is_named(tmp_path, before, after, said):
    made = survey(tmp_path / "s.toml")
    made.save()
    text = made.path.read_text()
    assert before in text
    made.path.write_text(text.replace(before, after))
    with pytest.raises(BadFile, match=said):
        read_survey(made.path)


@pytest.mark.parametrize(
    "spoil", [lambda held: held.pop("items"), lambda held: held["items"][0].pop("row"), lambda held: held.update(version=9)]
)
def test_damaged_items_are_named(tmp_path, spoil):
    made = survey(tmp_path / "s.toml")
    made.save()
    held = json.loads(made.items_path.read_text())
    spoil(held)
    made.items_path.write_text(json.dumps(held))
    with pytest.raises(BadFile, match=r"s\.items\.json"):
        read_survey(made.path)
    with pytest.raises(BadFile, match="There is no file"):
        read_survey(tmp_path / "none.toml")


def test_the_simulated_reader_is_unsure_of_words_it_does_not_know():
    texts = ["goal match", "team goal", "vote law", "senate vote"] * 20
    reader = taught(texts, [0, 0, 1, 1] * 20)
    assert reader is not None
    assert reader.answers([["goal", "team"], ["law"], ["zebra"], []]) == [0, 1, NEUTRAL, NEUTRAL]
    assert taught(texts[:8], [0] * 8) is None
    assert taught(texts, [0] * 80) is None


def test_values_are_written_as_people_read_them():
    assert [cell(v) for v in (3.0, 0.123456789, None, float("nan"), np.float32(2.5), "a", 7, True)] == [
        "3", "0.123457", "missing", "missing", "2.5", "a", "7", "True",
    ]  # fmt: skip
