"""The paper's tables: figures transcribed twice, cells that several tables share, claims, and what a report must not show."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from benchmarks import recipes

from aimwise.cli import main
from aimwise.data import load, zoo
from aimwise.errors import BadSetting, UnknownName
from aimwise.explainers import AIM
from aimwise.study.cells import fingerprint
from aimwise.study.paper import boxes
from aimwise.study.paper.base import Board, best, every
from aimwise.study.paper.methods import FULL, QUICK
from aimwise.study.paper.printed import printed
from aimwise.study.paper.registry import TABLES, table
from aimwise.study.paper.reproduce import Reproduction
from aimwise.study.paper.work import drawn
from aimwise.study.report import WARNING, covered, highlighted, page
from aimwise.study.run import Study
from aimwise.study.shown import as_facts, as_sheets, made_of, spell
from aimwise.study.store import Folder

TEX = next((p / "shared/paper/aim_iclr2023.tex" for p in Path(__file__).parents if (p / "shared/paper").is_dir()), None)
AGAIN = """
text-main hatexplain AIM faithfulness 92.98 1.17
text-main imdb VIBI negative_log_odds 8.47 0.36
text-main ag_news LIME minutes 137.02 -
text-main ag_news FI faithfulness 76.10 0.11
multiclass imdb FI class_faithfulness_1 15.62 0.36
multiclass ag_news AIM class_faithfulness_2 54.56 0.18
multiclass hatexplain LIME pairwise_iou 66.91 0.02
ablation imdb training_explainer_only faithfulness 61.66 1.90
pixels fashion3 AIM faithfulness@400 97.60 -
superpixels mnist3 AIM faithfulness@8 94.60 -
tabular adult MAPLE faithfulness_noise 81.52 -
tabular admission INVASE positive_log_odds_mean 0.92 -
topk ag_news L2X_K=20 faithfulness 88.82 0.15
topk hatexplain AIM_K=5 purity 13.94 1.84
tuning-aim imdb alpha=0.1 positive_log_odds 9.34 -
tuning-l2x hatexplain tau=0.7 faithfulness 55.78 0.25
tuning-lime imdb kernel_width=20 brevity 7.73 0.16
tuning-vibi hatexplain tau=0.5_beta=2 faithfulness 67.25 0.29
tuning-vibi ag_news tau=0.7_beta=0.1 purity 21.15 0.25
tuning-fi imdb samples=50 faithfulness 69.26 0.47
human imdb LIME neutral 19.22 -
"""  # read from the paper a second time, by hand


def test_printed_figures_are_those_of_a_second_transcription():
    for line in AGAIN.split("\n")[1:-1]:
        name, data, row, metric, mean, deviation = line.split()
        row, metric = row.replace("_", " ") if "kernel" not in row else row, metric.replace("_", " ")
        known = {(k[0], k[1], k[2], k[3].replace("_", " ")): v for k, v in printed().items()}
        found = known[name, data, row, metric]
        assert found.mean == float(mean), line
        assert found.deviation == (None if deviation == "-" else float(deviation)), line


def test_printed_figures_are_complete():
    counts = {"text-main": 105, "multiclass": 33, "ablation": 12, "pixels": 18, "superpixels": 6, "tabular": 32, "topk": 54}
    counts |= {"tuning-aim": 54, "tuning-l2x": 36, "tuning-lime": 45, "tuning-vibi": 162, "tuning-fi": 27, "human": 6}
    assert {name: sum(key[0] == name for key in printed()) for name in counts} == counts
    assert len(printed()) == sum(counts.values())
    assert all(one.place.startswith("Table ") for one in printed().values())


@pytest.mark.skipif(TEX is None, reason="the paper's source is not on this machine")
def test_every_printed_figure_stands_in_the_source():
    assert TEX is not None
    source = re.sub(r"[\\{}$ ]|pm|textbf", "", TEX.read_text())
    for one in printed().values():
        said = [f"{one.mean:.2f}", f"{one.mean:g}"]
        assert any(text in source for text in said), one
        if one.deviation is not None:
            assert any(f"{text}{one.deviation:.2f}" in source for text in said), one


def test_every_printed_row_has_one_of_ours_beside_it():
    shown = set()
    for name, one in TABLES.items():
        for panel in one.panels(FULL):
            for row in panel.rows:
                shown |= {(name, panel.data, row.printed, column.printed) for column in panel.columns}
    assert {key for key in printed() if key not in shown and key[0] != "human"} == set()


def test_all_tables_of_the_paper_are_there_and_share_cells():
    names = (
        "text-main topk multiclass ablation pixels superpixels tabular tuning-aim tuning-l2x tuning-lime tuning-vibi tuning-fi"
    )
    assert list(TABLES) == [*names.split(), "examples"]
    main_cells = {fingerprint(cell) for cell in table("text-main").cells(FULL)}
    assert {fingerprint(cell) for cell in table("multiclass").cells(FULL)} <= main_cells
    assert {fingerprint(cell) for cell in table("examples").cells(FULL)} <= main_cells
    everything = {fingerprint(cell) for one in TABLES.values() for cell in one.cells(FULL)}
    assert len(everything) < sum(len(one.cells(FULL)) for one in TABLES.values())
    assert not {fingerprint(cell) for cell in table("text-main").cells(QUICK)} & everything
    with pytest.raises(UnknownName, match=r"table 'text-mian'.*text-main"):
        table("text-mian")


def test_methods_that_are_trained_have_five_seeds_and_slow_ones_500_inputs():
    cells = table("text-main").cells(FULL)
    seeds = {m: {c["seed"] for c in cells if c["method"] == m} for m in ("aim", "l2x", "vibi", "lime", "fi", "ig")}
    assert [len(seeds[m]) for m in seeds] == [5, 5, 5, 1, 1, 1]
    assert {c["rows"] for c in cells if c["method"] in ("lime", "fi")} == {500}


def made_up(name: str, worth: dict[str, float], *, box: str = "b", seeds: tuple[int, ...] = (0, 1)) -> list[dict[str, object]]:
    """Records for every cell of a table, in which every figure of a row is its worth plus a little for the seed."""
    out = []
    one = table(name)
    for panel in one.panels(FULL):
        for row in panel.rows:
            for cell in row.cells:
                if row.name in worth and cell["seed"] in seeds:
                    figures = {c.figure: worth[row.name] + cell["seed"] / 100 for c in panel.columns}
                    made = {"device": "a machine", "commit": "abc", "command": "x", "torch": "2", "python": "3", "seconds": 2.0}
                    about = {"box_accuracy": 0.9, "box_network": "net", "inputs": 10}
                    out.append({**cell, "box": box, **made, "finished": "2026-01-01", **about, **figures})
    return out


def test_a_figure_is_a_mean_with_its_deviation_beside_the_printed_one():
    board = Board(table("ablation"), FULL, made_up("ablation", {"inference from explainer": 0.9, "inference from selector": 0.5}))
    panel = board.panels[0]
    value = board.value(panel, panel.rows[0], panel.columns[4])
    assert value.mean == pytest.approx(90.5)
    assert value.deviation == pytest.approx(0.7071, abs=1e-3)
    assert (value.seeds, value.wanted, value.collapsed) == (2, 5, 0)
    assert value.printed is not None
    assert value.printed.mean == 99.62
    assert value.difference == pytest.approx(-9.12)
    missing = board.value(panel, panel.rows[2], panel.columns[4])
    assert missing.mean is None
    assert missing.difference is None
    assert board.mean("imdb", "inference from selector", "faithfulness@10 packed") == pytest.approx(50.5)


def test_claims_hold_do_not_hold_or_are_not_known():
    one = table("ablation")

    def states(worth: dict[str, float]) -> list[bool | None]:
        board = Board(one, FULL, made_up("ablation", worth))
        return [board.holds(claim) for claim in one.claims]

    whole, from_pi, selector, explainer = (row.name for row in one.panels(FULL)[0].rows[:4])
    assert states({whole: 0.9, from_pi: 0.5, selector: 0.4, explainer: 0.6}) == [True, True, True, True]
    assert states({whole: 0.9, from_pi: 0.95, selector: 0.4, explainer: 0.8}) == [False, True, True, False]
    assert states({whole: 0.9, from_pi: 0.5}) == [True, None, None, None]
    assert every([True, None]) is None
    assert every([None, False]) is False
    assert every([]) is None


def test_best_goes_the_way_that_is_better():
    records = made_up("text-main", {"AIM (paper)": 0.9, "L2X": 0.5, "LIME": 0.4})
    board = Board(table("text-main"), FULL, records)
    assert best(board, "imdb", "AIM (paper)", ["L2X", "LIME"], "faithfulness@10 packed", "higher") is True
    assert best(board, "imdb", "AIM (paper)", ["L2X", "LIME"], "purity@10", "lower") is False
    assert best(board, "imdb", "AIM (paper)", ["VIBI"], "purity@10", "lower") is None


@pytest.mark.parametrize("scale", [FULL, QUICK])
@pytest.mark.parametrize("name", list(TABLES))
def test_every_claim_is_decided_when_all_cells_are_there(name, scale):
    one = table(name)
    figures = {column.figure: 0.5 for panel in one.panels(scale) for column in panel.columns}
    records = [{**cell, "box": "b", "seconds": 1.0, "inputs": 10, **figures, "minutes": 0.5} for cell in one.cells(scale)]
    board = Board(one, scale, records)
    undecided = [claim.text for claim in one.claims if board.holds(claim) is None]
    slow = ["LIME and FI take at least ten times as long as AIM for the same number of inputs"]
    samples = ["more samples are more faithful, packed", "more samples take more time"]
    assert undecided == (slow * (name == "text-main") + samples * (name == "tuning-lime")) * scale.quick
    assert all(plot.curves for plot in one.plots(board))
    assert made_of(board)["missing"] == []


def test_monotone_claims_look_at_every_k():
    one = table("topk")
    board = Board(one, FULL, made_up("topk", {"L2X": 0.5, "AIM (paper)": 0.9, "AIM (default)": 0.9}))
    assert [board.holds(claim) for claim in one.claims] == [False, True, True, True]
    records = made_up("topk", {"L2X": 0.5, "AIM (paper)": 0.9, "AIM (default)": 0.9})
    for record in records:
        if record["method"] == "l2x" and record["settings"]["k"] == 20 and record["data"] == "imdb":
            record["faithfulness@20 packed"] = 0.3
    assert Board(one, FULL, records).holds(one.claims[0]) is True


def test_figures_of_two_black_boxes_are_never_mixed():
    old = made_up("ablation", {"inference from explainer": 0.1}, box="old")
    new = [{**r, "finished": "2026-02-01"} for r in made_up("ablation", {"inference from explainer": 0.9}, box="new")]
    board = Board(table("ablation"), FULL, [*new, *old])
    assert board.mean("imdb", "inference from explainer", "purity@10") == pytest.approx(90.5)


def test_time_is_told_from_measured_cells():
    one = table("ablation")
    board = Board(one, FULL, made_up("ablation", {"inference from explainer": 0.9}))
    assert board.seconds() == (60.0, 2, 30)
    assert Board(one, FULL, []).seconds() == (None, 0, 30)
    assert [spell(5), spell(600), spell(9000)] == ["5 s", "10 min", "2.5 h"]


def test_what_is_missing_is_said():
    board = Board(table("ablation"), FULL, made_up("ablation", {"inference from explainer": 0.9}))
    made = made_of(board)
    assert made["cells"] == 2
    assert "IMDB, inference from explainer: seeds 2, 3, 4" in made["missing"]
    assert len(made["missing"]) == 6
    facts = as_facts(board)
    assert sum(figure["mean"] is None for figure in facts["figures"]) == 25
    assert len(as_sheets(board)) == 2


class Seen(HTMLParser):
    """The text of a page that is seen without scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.text = 0, ""

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("template", "script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("template", "script", "style")

    def handle_data(self, data):
        self.text += "" if self.hidden else data


def with_examples() -> list[dict[str, object]]:
    records = made_up("examples", {row.name: 0.9 for row in table("examples").panels(FULL)[0].rows}, seeds=(0,))
    for record in records:
        word = {"imdb": "splendid", "ag_news": "goal", "hatexplain": "slurword"}[str(record["data"])]
        words = {"one": [[word, 2, 2 + len(word)]], "two": [[word, 2, 2 + len(word)]]}
        record["examples"] = [{"row": 1, "truth": "two", "model": "one", "text": f"a {word} <b>", "words": words}]
    return records


def test_offensive_texts_are_covered_in_the_page(tmp_path):
    records = with_examples()
    text = page([Board(one, FULL, records) for one in TABLES.values()], records)
    seen = Seen()
    seen.feed(text)
    assert "splendid" in seen.text
    assert "goal" in seen.text
    assert "slurword" not in seen.text
    assert text.count("slurword") > 0  # for those who ask
    assert WARNING in seen.text
    assert "a mistake of the black box" in seen.text
    assert "a <mark>splendid</mark> &lt;b&gt;" in text
    assert re.search(r"@media print \{ \.uncovered", text)
    assert '<button type="button" hidden>' in covered("x")
    assert "http" not in re.sub(r"data:image[^\"]*|http://www.w3.org[^\"]*", "", text)


def test_offensive_texts_are_left_out_of_markdown(tmp_path, monkeypatch):
    from aimwise.study import markdown

    monkeypatch.setattr(Folder, "records", lambda self: with_examples())
    markdown.write_markdown(Reproduction(tmp_path, FULL), tmp_path / "docs")
    texts = {file.name: file.read_text() for file in (tmp_path / "docs").glob("*.md")}
    assert len(texts) == 14
    assert "splendid" in texts["examples.md"]
    assert not any("slurword" in text for text in texts.values())
    assert "missing" in texts["tabular.md"]
    assert "0.72" in texts["README.md"]


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (FULL, "`aimwise reproduce --markdown docs`; the cells are in `paper/cells`"),
        (QUICK, "`aimwise reproduce --quick --markdown docs`; the cells are in `paper-quick/cells`"),
    ],
)
def test_markdown_says_how_it_was_made_without_a_machine_s_folders(tmp_path, scale, said):
    from aimwise.study import markdown

    markdown.write_markdown(Reproduction(tmp_path, scale), tmp_path / "docs")
    texts = [file.read_text() for file in (tmp_path / "docs").glob("*.md")]
    assert any(said in text for text in texts)
    assert not any(str(tmp_path) in text for text in texts)


def test_highlighting_keeps_the_text():
    assert highlighted("good & bad", [(7, 10), (0, 4)]) == "<mark>good</mark> &amp; <mark>bad</mark>"


def test_drawn_texts_have_a_mistake_among_them():
    truth = [0] * 50
    rows = drawn([0] * 40 + [1] * 10, truth)
    assert len(rows) == 3
    assert [i >= 40 for i in rows] == [False, False, True]
    assert rows == drawn([0] * 40 + [1] * 10, truth)


def ablated(tmp_path: Path, **changed: object) -> AIM:
    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(0)).numpy()

    def box(rows):
        p = torch.sigmoid(torch.as_tensor(rows[:, 0] * 3 - rows[:, 1] * 2))
        return torch.stack([1 - p, p], 1).numpy()

    made = replace(AIM.paper(epochs=3), least_rows=512, **changed)
    return made.fit(box, x, seed=0)


def test_ablations_are_settings_of_aim(tmp_path):
    from_pi, alone = ablated(tmp_path, rank="pi"), ablated(tmp_path, rank="pi", explainer=False)
    whole = ablated(tmp_path)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1)).numpy()
    assert whole.every_class
    assert not from_pi.every_class
    pi = from_pi.explain(x)
    assert pi.only is not None
    assert bool(((pi.towards() >= 0) & (pi.towards() <= 1)).all())
    assert sorted(alone.nets_) == ["approximator", "selector"]
    assert sorted(from_pi.nets_) == sorted(whole.nets_) == ["approximator", "explainer", "selector"]
    same = [
        torch.equal(a, b) for a, b in zip(whole.nets_.state_dict().values(), from_pi.nets_.state_dict().values(), strict=True)
    ]
    assert all(same)  # what features are ranked by changes nothing that is learned
    assert alone.queries_ < whole.queries_  # L2 asks the black box about no mask
    alone.save(tmp_path / "alone")


@pytest.mark.parametrize("wrong", [{"rank": "pi", "masks": "uniform"}, {"explainer": False}])
def test_parts_that_do_not_fit_together_are_refused(tmp_path, wrong):
    with pytest.raises(BadSetting, match="rank='pi' needs masks drawn"):
        ablated(tmp_path, **wrong)
    with pytest.raises(UnknownName, match="rank 'w'"):
        ablated(tmp_path, rank="w")


def test_the_command_lists_and_reports_what_is_there(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "--list", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["table"] for one in said["tables"]] == list(TABLES)
    assert {one["done"] for one in said["tables"]} == {0}
    assert main(["reproduce", "--report", "r.html", "--quick", "--quiet"]) == 0
    assert "A quick look" in (tmp_path / "r.html").read_text()
    assert main(["reproduce"]) == 1
    assert "Nothing to do" in capsys.readouterr().err
    assert main(["reproduce", "nonsense"]) == 1
    assert "There is no table 'nonsense'" in capsys.readouterr().err


def test_the_command_runs_missing_cells_and_shows_the_table(tmp_path, capsys, monkeypatch):
    ran = []

    def run(self, wanted, *, jobs, engine, say, minutes):
        ran.extend(wanted)
        return []

    monkeypatch.setattr(Study, "run", run)
    monkeypatch.setattr("aimwise.study.paper.reproduce.weights", lambda data, scale: f"sha of {data}")
    assert main(["reproduce", "tabular", "--seeds", "2", "--results", str(tmp_path), "--json"]) == 0
    assert {cell["box"] for cell in ran} == {"sha of admission", "sha of adult"}
    assert {cell["seed"] for cell in ran} == {0, 1}
    said = json.loads(capsys.readouterr().out)
    assert said["tables"]["tabular"]["claims"][0]["holds"] is None


def test_the_command_runs_one_data_set_alone_and_refuses_one_that_no_table_has(tmp_path, capsys, monkeypatch):
    ran = []
    monkeypatch.setattr(Study, "run", lambda self, wanted, **how: ran.extend(wanted) or [])
    monkeypatch.setattr("aimwise.study.paper.reproduce.weights", lambda data, scale: f"sha of {data}")
    flags = ["--results", str(tmp_path), "--quiet"]
    assert main(["reproduce", "tabular", "pixels", "--data", "adult", *flags]) == 0
    assert {cell["data"] for cell in ran} == {"adult"}
    assert main(["reproduce", "tabular", "--data", "imdb", *flags]) == 1
    assert "Got --data imdb, wanted one of those of the tables: admission, adult." in capsys.readouterr().err


def test_a_model_without_weights_is_known_by_how_it_was_made():
    data = load("wine")
    one = boxes.by_making(zoo.random_forest(data), data)
    assert one == boxes.by_making(zoo.random_forest(data), data)
    fewer = replace(data, train=boxes.first(data.train, 100))
    others = [(zoo.random_forest(data, seed=1), data), (zoo.logistic_regression(data), data), (zoo.random_forest(fewer), fewer)]
    assert len({one, *(boxes.by_making(*made) for made in others)}) == 4


def test_every_method_of_the_laboratory_suits_its_data():
    asked = {(cell["data"], cell["method"]) for cell in recipes.cells(list(recipes.TASKS), seeds=1, judged=False)}
    assert ("imdb", "lexicon") in asked
    assert ("adult", "lexicon") in asked
    assert ("mnist-patches", "ig") in asked
    assert not asked & {("mnist-patches", "lexicon"), ("digits-patches", "lexicon"), ("wine", "ig")}
