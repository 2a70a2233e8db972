"""What came out of a study: figures, files, export and deletion by the command line, and the questions of the page's server."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
import urllib.error
import urllib.request
from dataclasses import replace

import numpy as np
import pytest

from aimwise.cli import main
from aimwise.human.results import PAPER, results
from aimwise.human.store import Answer, Store
from aimwise.human.survey import NEUTRAL
from aimwise.human.told import page, plot, tables
from command_line import aimwise
from human_study import ask, simulated, survey, threaded

RIGHTS = {"aim": 0.95, "l2x": 0.8, "lime": 0.7}


@pytest.fixture
def study(tmp_path):
    made = survey(tmp_path / "s.toml", items=20)
    items = tuple(replace(item, reader={m: item.truth if m == "aim" else NEUTRAL for m in made.methods}) for item in made.items)
    made = replace(made, items=items, reader="100 other texts")
    made.save()
    return made


@pytest.fixture
def answered(study):
    """The study with the answers of three people, the last of whom stopped early."""
    store = Store(study)
    rng = np.random.default_rng(0)
    for p in range(3):
        _, who = store.begin(f"start-{p:010d}")
        for position, (_, method, item) in enumerate(who.slots[: 45 if p == 2 else None]):
            truth = study.items[item].truth
            choice = truth if rng.random() < RIGHTS[method] else 1 - truth
            store.save(who, Answer(position, NEUTRAL if item == 0 else choice, f"answer-{position:010d}", position, 2.0))
    yield store
    store.close()


def told(capsys, *words):
    code = main(["study", *map(str, words)])
    return code, capsys.readouterr()


def test_accuracy_and_neutral_are_counted_as_in_the_paper(study):
    answers = [
        {"code": "a", "method": "aim", "item": 0, "choice": 0, "seconds": 1.0},  # right
        {"code": "a", "method": "aim", "item": 1, "choice": 0, "seconds": 3.0},  # wrong
        {"code": "a", "method": "aim", "item": 2, "choice": -1, "seconds": 5.0},
        {"code": "b", "method": "aim", "item": 0, "choice": 0, "seconds": 9.0},
    ]
    found = results(study, answers, started=2)
    aim = found.methods[0]
    assert aim.accuracy.value == pytest.approx((1 / 2 + 1) / 2)
    assert aim.neutral.value == pytest.approx((1 / 3 + 0) / 2)
    assert (aim.participants, aim.answers, aim.seconds) == (2, 4, 4.0)
    assert math.isnan(found.methods[1].accuracy.value)
    assert (found.participants, found.finished) == (2, 0)
    assert aim.paper == pytest.approx((0.901, 0.0841))


def test_the_figures_of_the_paper_are_those_it_prints():
    assert PAPER == {"aim": (90.10, 8.41), "l2x": (83.03, 12.22), "lime": (84.13, 19.22)}


def test_a_better_method_is_found_to_be_better(study):
    found = results(study, simulated(study, people=15, rights=RIGHTS), started=15)
    assert [m.accuracy.low < RIGHTS[m.method] < m.accuracy.high for m in found.methods] == [True] * 3
    first = next(b for b in found.pairs if (b.one, b.other, b.figure) == ("aim", "lime", "accuracy"))
    assert first.p < 0.01
    assert first.p >= max(first.people, first.items)
    assert first.gap.low > 0
    assert len(found.pairs) == 6
    assert found.finished == 15


def test_what_is_seen_once_is_paired_over_items(study):
    once = replace(study, once=True)
    answers = simulated(study, people=12, rights=RIGHTS)
    dealt = [a for a in answers if (int(a["code"][1:]) + a["item"]) % 3 == study.methods.index(a["method"])]
    found = results(once, dealt, started=12)
    assert found.finished == 12
    assert all(not math.isnan(b.p) for b in found.pairs)


def test_the_command_prints_figures_and_says_what_is_not_human(answered, capsys):
    code, said = told(capsys, "results", answered.survey.path)
    assert code == 0
    assert "3 participants, 2 of them finished" in said.out
    assert "90.10, 8.41" in said.out
    assert "NOT HUMAN: a simulated reader" in said.out
    assert "simulated reader, not human" in said.out
    assert re.search(r"aim – lime +accuracy +-?[\d.]+ \(", said.out)


def test_the_command_writes_json_a_page_a_plot_and_a_table(answered, capsys, tmp_path):
    files = [tmp_path / name for name in ("r.html", "r.svg", "r.csv")]
    code, said = told(
        capsys, "results", answered.survey.path, "--json", "--html", files[0], "--plot", files[1], "--csv", files[2]
    )
    facts = json.loads(said.out)
    assert (code, facts["participants"], facts["finished"]) == (0, 3, 2)
    aim = facts["methods"][0]
    assert aim["simulated_reader"]["human"] is False
    assert aim["simulated_reader"]["accuracy"]["value"] == 1.0
    assert aim["accuracy"]["low"] <= aim["accuracy"]["value"] <= aim["accuracy"]["high"]
    held = files[0].read_text()
    assert "Not human: a simulated reader" in held
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", held)
    assert files[1].read_text().startswith("<?xml")
    assert len(list(csv.DictReader(files[2].read_text().splitlines()))) == len(answered.answers()) == 165
    _, only = told(capsys, "results", answered.survey.path, "--json", "--finished")
    assert json.loads(only.out)["participants"] == 2


def test_export_has_a_line_for_every_answer_and_forget_takes_one_persons(answered, capsys):
    path = answered.survey.path
    _, said = told(capsys, "export", path)
    lines = list(csv.DictReader(said.out.splitlines()))
    assert len(lines) == 165
    one = next(line for line in lines if line["neutral"] == "0")
    item = answered.survey.items[int(one["item"])]
    assert one["row"] == str(item.row)
    assert (one["right"] == "1") == (one["choice"] == answered.survey.choices[item.truth])
    gone = lines[0]["participant"]
    code, said = told(capsys, "forget", path, gone)
    assert code == 0
    assert f"deleted participant {gone} and 60 answers" in said.out
    _, said = told(capsys, "export", path, "--out", path.parent / "left.csv")
    assert "105 answers" in said.out
    assert gone not in (path.parent / "left.csv").read_text()
    code, said = told(capsys, "forget", path, gone)
    assert code == 1
    assert "There is no participant" in said.err


def test_without_the_extra_it_is_named(study, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    code, said = told(capsys, "results", study.path)
    assert code == 1
    assert "pip install 'aimwise[web]'" in said.err


def test_no_answers_are_no_error(study, capsys):
    code, said = told(capsys, "results", study.path)
    assert code == 0
    assert "0 participants" in said.out
    assert "nan" not in said.out
    found = results(study, [], started=0)
    assert "nan" not in page(found).lower().replace("dominant", "")
    assert plot(found) is not None
    assert tables(found) is not None
    json.loads(found.to_json())


def test_names_are_shown_as_they_are_and_not_run(study):
    odd = replace(study, title="<b>$x_1$</b>", methods=study.methods)
    held = page(results(odd, simulated(study, people=2, rights=RIGHTS), started=2))
    assert "&lt;b&gt;$x_1$&lt;/b&gt;" in held
    assert "<b>" not in held


def test_serve_says_where_it_cannot_listen(study):
    said = aimwise("study", "serve", str(study.path), "--port", "0", "--host", "no.such.host.invalid", cwd=study.path.parent)
    assert said.returncode == 1
    assert "Cannot listen at no.such.host.invalid" in said.stderr


@pytest.fixture
def url(study):
    store = Store(study)
    with threaded(study, store) as made:
        yield made
    store.close()


ANSWER = {"choice": 1, "client": "client-0123456789", "turn": 1, "seconds": 1.0}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"choice": 2}, 422),
        ({"choice": -2}, 422),
        ({"choice": "1"}, 422),
        ({"choice": True}, 422),
        ({"client": "short"}, 422),
        ({"client": "x" * 65}, 422),
        ({"client": "has spaces in it, or <more>"}, 422),
        ({"turn": 2**60}, 422),
        ({"turn": -1}, 422),
        ({"seconds": -1.0}, 422),
        ({"method": "aim"}, 422),
        ({"client": "x" * 9000}, 413),
    ],
)
def test_answers_that_make_no_sense_are_refused_and_not_kept(url, change, status):
    _, begun = ask(f"{url}/api/participants", "POST", {"consent": True, "start": "start-0123456789"})
    got, said = ask(f"{url}/api/p/{begun['token']}/answers/0", "PUT", {**ANSWER, **change})
    assert got == status, said
    assert said["error"]
    _, state = ask(f"{url}/api/p/{begun['token']}")
    assert state["answered"] == 0


def test_the_server_refuses_what_is_out_of_turn_or_unknown(url):
    assert ask(f"{url}/api/participants", "POST", {"consent": False, "start": "start-0123456789"})[0] == 422
    _, begun = ask(f"{url}/api/participants", "POST", {"consent": True, "start": "start-0123456789"})
    mine = f"{url}/api/p/{begun['token']}"
    assert ask(f"{mine}/answers/1", "PUT", ANSWER)[0] == 409
    assert ask(f"{mine}/items/1")[0] == 409
    assert ask(f"{mine}/items/-1")[0] == 409
    assert ask(f"{mine}/items/0")[0] == 200
    assert ask(f"{url}/api/p/{'B' * 32}")[0] == 404
    assert ask(f"{url}/api/p/short")[0] == 422
    assert ask(f"{url}/openapi.json")[0] == 404
    assert ask(f"{url}/healthz") == (200, {"status": "ok"})
    assert ask(f"{mine}/answers/0", "PUT", {**ANSWER, "seconds": 1e12})[0] == 200


def test_a_name_that_the_server_does_not_go_by_is_refused(url):
    request = urllib.request.Request(f"{url}/api/study", headers={"host": "elsewhere.example"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    with caught.value as e:
        assert e.code == 421
        assert "--name" in e.read().decode()
    with urllib.request.urlopen(f"{url}/") as answer:
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_a_database_that_is_away_is_not_a_saved_answer(study):
    store = Store(study)
    with threaded(study, store) as url:
        _, begun = ask(f"{url}/api/participants", "POST", {"consent": True, "start": "start-0123456789"})
        with store.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE aimwise_answers RENAME TO hidden")
        status, said = ask(f"{url}/api/p/{begun['token']}/answers/0", "PUT", ANSWER)
        assert (status, said["kind"]) == (503, "NotSaved")
        with store.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE hidden RENAME TO aimwise_answers")
        assert ask(f"{url}/api/p/{begun['token']}/answers/0", "PUT", ANSWER)[1]["saved"] is True
    store.close()
