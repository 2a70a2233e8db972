"""Words: exact places, any language, masks that leave the rest of the text alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import aimwise
from aimwise import Words
from aimwise.errors import BadFeatures, BadSetting, UnknownName
from aimwise.features.tokenizer import tokenize
from aimwise.nn.build import family


def words(text):
    found = tokenize([text])
    return [text[a:b] for a, b in zip(found.start, found.end, strict=True)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Don't stop, foo_bar 3.14!!", ["Don't", "stop", ",", "foo_bar", "3", ".", "14", "!", "!"]),
        ("'quoted' it's l’été", ["'", "quoted", "'", "it's", "l’été"]),
        ("cafe\u0301 nai\u0308ve", ["cafe\u0301", "nai\u0308ve"]),
        ("👩\u200d👩\u200d👧 👍🏽 ❤\ufe0f ok", ["👩\u200d👩\u200d👧", "👍🏽", "❤\ufe0f", "ok"]),
        ("🇩🇪 🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("我爱你 ひら 한국어 단어", ["我", "爱", "你", "ひ", "ら", "한국어", "단어"]),
        ("привет, мир", ["привет", ",", "мир"]),
        ("<br />a\tb\nc\u00a0d", ["<", "br", "/", ">", "a", "b", "c", "d"]),
        ("", []),
        (" \t\n", []),
        ("...", [".", ".", "."]),
        ("\u0301abc", ["\u0301", "abc"]),
        ("a\ud800b", ["a", "\ud800", "b"]),
    ],
)
def test_tokens_by_hand(text, want):
    assert words(text) == want


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_tokens_of_anything_cover_all_that_is_visible_and_do_not_depend_on_company(texts):
    found = tokenize(texts)
    assert found.counts().sum() == len(found.row)
    for i, text in enumerate(texts):
        mine = found.row == i
        alone = tokenize([text])
        np.testing.assert_array_equal(found.start[mine], alone.start)
        np.testing.assert_array_equal(found.key[mine], alone.key)
        ends = [0, *alone.end.tolist()]
        starts = [*alone.start.tolist(), len(text)]
        assert all(a <= b for a, b in zip(ends, starts, strict=True)), "tokens overlap"
        gaps = "".join(text[a:b] for a, b in zip(ends, starts, strict=True))
        assert not any(character.isalnum() for character in gaps)


def test_the_same_spelling_has_the_same_number_and_others_another():
    found = tokenize(["Good good GOOD bad", "good"])
    assert len(set(found.key[[0, 1, 2, 4]].tolist())) == 1
    assert found.key[3] != found.key[0]


def test_a_megabyte_in_one_text_and_many_texts_are_fast():
    text = "the quick brown fox, doesn't jump! " * 30_000
    started = time.process_time()  # a busy machine is not the tokenizer's fault
    found = tokenize([text])
    assert len(found.row) == 8 * 30_000
    assert len(text) / 1e6 / (time.process_time() - started) > 2  # MB/s; ten times that is usual


TEXTS = ["A good film, a good cast.", "not good", "bad bad film!", "", "...", "good good"] * 5


def masked(features, text, z):
    batch = features.encode([text])
    return features.dim(batch, torch.tensor([z], dtype=torch.float32), torch.Generator())[0]


def test_masking_leaves_the_rest_alone():
    features = Words(length=4).fit(TEXTS)
    text = "  A good  film, a good cast."
    assert masked(features, text, [1, 1, 1, 1]) == text
    assert masked(features, text, [1, 0, 1, 1]) == "  A film, a good cast."
    assert masked(features, text, [0, 0, 0, 0]) == "   a good cast."
    replaced = Words(fill="replace", token="___", length=4).fit(TEXTS)
    assert masked(replaced, text, [1, 0, 1, 0]) == "  A ___  film___ a good cast."


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60), fill=st.sampled_from(["delete", "replace"]), length=st.integers(1, 9))
def test_nothing_taken_away_is_the_text_itself(text, fill, length):
    features = Words(fill=fill, length=length).fit(TEXTS)
    batch = features.encode([text, "other words here"])
    whole = features.dim(batch, batch.present.float(), torch.Generator())
    assert whole == [text, "other words here"]
    gone = features.dim(batch, torch.zeros(batch.present.shape), torch.Generator())
    if fill == "delete":
        assert len(gone[0]) <= len(text)


def test_unknown_words_have_ids_of_their_own_and_padding_has_none():
    features = Words(min_count=2).fit(TEXTS)
    x = features.encode(["good zebra quokka", "good"]).x
    assert len(set(x[0].tolist())) == 3
    assert x[1].tolist()[1:] == [0, 0]
    assert (x[0] > 0).all()
    assert int(x.max()) < features.layout.ids


def test_places_words_and_what_was_not_explained():
    features = Words(length=3).fit(TEXTS)
    text = "Great film, truly great."
    batch = features.encode([text, "x"])
    assert features.values(batch).tolist() == [["Great", "film", ","], ["x", "", ""]]
    assert [text[a:b] for a, b in features.spans(batch)[0]] == ["Great", "film", ","]
    assert features.unexplained(batch).tolist() == [3, 0]


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: Words().fit("one text"), BadFeatures, "Pass"),
        (lambda: Words().fit(["a", None]), BadFeatures, "Input 1 is NoneType"),
        (lambda: Words(fill="blur").fit(TEXTS), UnknownName, "fill 'blur'"),
        (lambda: Words(length=0).fit(TEXTS), BadSetting, "length=0"),
    ],
)
def test_bad_texts_and_settings_are_named(use, error, message):
    with pytest.raises(error, match=message):
        use()


GOOD, BAD = ["good", "great", "fine", "superb"], ["bad", "awful", "dull", "poor"]
FILLER = ["the", "film", "was", "and", "actors", "plot", "music", "scene", "it", "really"]


def reviews(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.permutation([*rng.choice(FILLER, 6), rng.choice(GOOD + BAD)])) + "." for _ in range(n)]


def test_a_pipeline_is_explained_by_its_own_coefficients():
    texts = reviews()
    labels = ["pos" if any(g in t.split() or f"{g}." in t for g in GOOD) else "neg" for t in texts]
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, labels)
    explainer = aimwise.AIM(epochs=10).fit(model, texts[:800])
    got = explainer.explain(texts[800:], check=8)
    top = [row.top(1)[0] for row in got]
    assert np.mean([word.lower() in (GOOD if labels[800 + i] == "pos" else BAD) for i, (word, _, _) in enumerate(top)]) > 0.97
    assert all(texts[800 + i][a:b] == word for i, (word, _, (a, b)) in enumerate(top))
    assert float(got.check.agreement.mean()) > float(got.check.without.mean()) + 0.1
    assert set(got.to_frame(top=1).columns) == {"row", "feature", "start", "end", "class", "weight", "rank"}


def negation(texts):
    """A black box that reads negation: an opinion counts once, and three times the other way after a 'not'.

    (If it counted once the other way, 'good' would add as much alone as it takes away after 'not': no additive weight.)
    """
    score = []
    for text in texts:
        tokens = text.lower().split()
        signs = [(-3 if i and tokens[i - 1] == "not" else 1) * ((t in GOOD) - (t in BAD)) for i, t in enumerate(tokens)]
        score.append(1 / (1 + np.exp(-sum(signs))))
    return np.stack([1 - np.array(score), np.array(score)], 1)


def opinions(n, seed):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        opinion = [*(["not"] if rng.random() < 0.5 else []), rng.choice(GOOD + BAD)]
        before, after = rng.choice(FILLER, rng.integers(1, 4)), rng.choice(FILLER, rng.integers(1, 4))
        out.append(" ".join([*before, *opinion, *after]))
    return out


def weight_of(explanation, word):
    return next(w for name, w, _ in explanation.top(99, target=1) if name == word)


def test_not_good_turns_good_round_with_context_and_cannot_without():
    texts = opinions(2000, 0)
    features = Words(fill="replace", token="it").fit(texts)
    default = aimwise.AIM(epochs=12).fit(negation, texts, features=features)
    plain, turned = default.explain(["the film was good it", "the film was not good it"])
    assert weight_of(plain, "good") > 0.1
    assert weight_of(turned, "good") < -0.1
    x = features.encode(["the film was good it", "the film was not good it"]).x
    paper = family("text", "paper").explainer(features.layout, 2).eval()
    W = paper(x, torch.full((2, 2), 0.5))
    torch.testing.assert_close(W[0, 3], W[1, 4])  # the paper's explainer sees one word and nothing around it


def test_empty_and_all_punctuation_texts_are_ordinary(tmp_path):
    texts = [*reviews(120), "", "...", "   "]
    box = lambda inputs: negation([t or "it" for t in inputs])  # noqa: E731
    explainer = aimwise.AIM(epochs=3, least_rows=256).fit(box, texts)
    got = explainer.explain(["", "!!", "good " * 600, "good film"], check=4)
    assert got.weights.shape[1] == 512
    assert got[0].top(5) == []
    assert len(got[1].top(5)) == 2
    assert got.unexplained.tolist() == [0, 0, 88, 0]
    assert torch.isfinite(got.weights).all()
    back = aimwise.load(explainer.save(tmp_path / "x"), box).explain(["", "!!", "good " * 600, "good film"], check=4)
    assert torch.equal(back.weights, got.weights)
    again = aimwise.Explanation.from_json(got.to_json())
    assert again[3].top(2) == got[3].top(2)
    assert json.loads(got.to_json())["sources"][1] == "!!"


def test_a_text_gets_the_same_weights_in_any_company():
    texts = reviews(200)
    explainer = aimwise.AIM(epochs=3, least_rows=256).fit(negation, texts)
    alone, together = explainer.explain(["good film"]), explainer.explain(["good film", *texts])
    torch.testing.assert_close(alone.weights[0], together.weights[0, :2], atol=1e-5, rtol=1e-4)
    assert alone[0].top(2)[0][0] == together[0].top(2)[0][0]


def counts_good(texts):
    p = np.array([0.2 + 0.6 * ("good" in text) for text in texts])
    return np.stack([1 - p, p], 1)


def test_a_generator_is_explained_in_batches_as_all_at_once():
    texts = [f"good film number {i}" if i % 3 else "bad plot" for i in range(70)]
    explainer = aimwise.AIM(epochs=1).fit(counts_good, texts)
    whole = explainer.explain(texts)
    parts = list(explainer.explain_batches((text for text in texts), rows=32, check=2, top=1))
    assert [len(part) for part in parts] == [32, 32, 6]
    assert parts[0].check is not None
    assert parts[0].trial is not None
    joined = torch.cat(
        [torch.nn.functional.pad(p.weights, (0, 0, 0, whole.weights.shape[1] - p.weights.shape[1])) for p in parts]
    )
    torch.testing.assert_close(joined, whole.weights, atol=1e-5, rtol=1e-4)
    assert list(explainer.explain_batches(iter([]))) == []
    with pytest.raises(BadSetting, match="rows=0"):
        explainer.explain_batches(texts, rows=0)
    with pytest.raises(BadFeatures, match="Got one text"):
        explainer.explain_batches("one text")


MEMORY = """
import resource, sys
import numpy as np, torch, aimwise
torch.set_num_threads(1)
def box(texts):
    p = np.array([0.3 + 0.4 * ("a" in text) for text in texts])
    return np.stack([1 - p, p], 1)
explainer = aimwise.AIM(epochs=1, most_queries=2000).fit(box, [f"a b c{i}" for i in range(200)])
def source(n):
    for i in range(n):
        yield " ".join(f"w{(i * j) % 999}" for j in range(1, 60))
for n in (1000, 10000):
    for part in explainer.explain_batches(source(n), rows=200):
        pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_memory_stays_flat_when_ten_times_as_many_texts_stream_through():
    out = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout.split()
    few, many = map(int, out)
    assert many < few + 40, f"{few} MB after 1,000 texts, {many} MB after 10,000"


@pytest.mark.parametrize("inputs", [pd.DataFrame({"text": ["a", "b"]}), {"text": ["a", "b"]}], ids=["frame", "dict"])
def test_the_names_of_columns_are_not_taken_for_texts(inputs):
    explainer = aimwise.AIM(epochs=1).fit(counts_good, ["good film", "bad film", "good plot"] * 20)
    with pytest.raises(BadFeatures, match="wanted a sequence of texts"):
        explainer.explain(inputs)


def test_no_texts_are_explained_without_asking():
    def grumpy(texts):
        assert len(texts) > 0
        return counts_good(texts)

    explainer = aimwise.AIM(epochs=1).fit(grumpy, ["good film", "bad film", "good plot"] * 20)
    assert len(explainer.explain([], check=2, top=1)) == 0


def test_a_missing_text_is_named_wherever_it_stands():
    with pytest.raises(BadFeatures, match="Input 0 is NoneType, wanted a text"):
        aimwise.AIM().fit(counts_good, [None, "good", "bad"])
