"""Torch modules over token ids behind their own tokenizer, transformers' classifiers among them, as black boxes over texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from aimwise.blackbox.base import BlackBox, Move, as_matrix, centred, known_output, normalised, settled
from aimwise.blackbox.looking import looking, told_apart
from aimwise.blackbox.modules import as_tensor, embeddings_changed, evaluating, place_of, scaling, scores_of
from aimwise.errors import BadBlackBox, BadSetting
from aimwise.gates import GatedTexts

IDS, SEEN, PLACES = "input_ids", "attention_mask", "offset_mapping"
MOST_WORDS = 8  # that one token is looked at for
UNLIMITED = 1_000_000  # transformers writes a huge number where a tokenizer knows no limit


@dataclass(frozen=True)
class Encoded:
    """Texts as the numbers a module takes, and where each token stands in its text."""

    inputs: dict[str, np.ndarray]  # each (n, L)
    lengths: np.ndarray  # (n,)
    places: np.ndarray | None  # (n, L, 2)
    left: bool = False  # whether padding stands before the tokens

    def rows(self, index: np.ndarray) -> Encoded:
        """Some of the texts, without tokens that none of them has."""
        lengths = self.lengths[index]
        longest = max(int(lengths.max(initial=0)), 1)
        cut = slice(-longest, None) if self.left else slice(longest)
        places = None if self.places is None else self.places[index][:, cut]
        return Encoded({name: v[index][:, cut] for name, v in self.inputs.items()}, lengths, places, self.left)


class Tokenizer(ABC):
    """Texts to ids, for a module that takes them."""

    named: bool
    """Whether the module takes what was encoded by name."""
    placed: bool = False
    """Whether it is sure to tell where each token stands."""
    pad: int | None = None
    mask: int | None = None

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Encoded:
        """The texts as the module takes them."""


class PretrainedTokenizer(Tokenizer):
    """A tokenizer of transformers."""

    named = True

    def __init__(self, tokenizer: Any, limit: int | None, pad: int | None, mask: int | None) -> None:
        self.tokenizer, self.limit, self.placed = tokenizer, limit, bool(tokenizer.is_fast)
        self.pad = tokenizer.pad_token_id if pad is None else pad
        self.mask = tokenizer.mask_token_id if mask is None else mask
        if self.pad is None:
            raise BadBlackBox(
                "The tokenizer has no padding token, so texts of different length cannot be asked about together. Pass "
                "pad=, or set tokenizer.pad_token = tokenizer.eos_token and model.config.pad_token_id = tokenizer.pad_token_id."
            )

    def encode(self, texts: Sequence[str]) -> Encoded:
        found = self.tokenizer(
            list(texts),
            truncation=self.limit is not None,
            max_length=self.limit,
            return_attention_mask=True,
            return_offsets_mapping=self.placed,
        )
        lengths = np.array([len(ids) for ids in found[IDS]], dtype=np.int64)
        left = self.tokenizer.padding_side == "left"
        kinds = self.tokenizer.pad_token_type_id
        padding = {IDS: self.pad, SEEN: 0, "token_type_ids": kinds}
        inputs = {name: padded(rows, lengths, padding.get(name, 0), left) for name, rows in found.items() if name != PLACES}
        places = padded(found[PLACES], lengths, 0, left) if self.placed else None
        return Encoded(inputs, lengths, places, left)


class FunctionTokenizer(Tokenizer):
    """A function from texts to ids, (n, length), or to a mapping with input_ids and, if it can tell, offset_mapping."""

    def __init__(self, function: Callable[[list[str]], Any], pad: int | None, mask: int | None) -> None:
        self.function, self.pad, self.mask = function, pad, mask

    def encode(self, texts: Sequence[str]) -> Encoded:
        found = self.function(list(texts))
        self.named = isinstance(found, Mapping) and set(found) - {IDS, PLACES} != set()
        given = (
            {name: as_tensor(v).numpy() for name, v in found.items()}
            if isinstance(found, Mapping)
            else {IDS: as_tensor(found).numpy()}
        )
        places = given.pop(PLACES, None)
        if IDS not in given or given[IDS].ndim != 2 or len(given[IDS]) != len(texts):
            got = {name: v.shape for name, v in given.items()}
            raise BadBlackBox(
                f"The tokenizer returned {got} for {len(texts)} texts, wanted {IDS} of shape ({len(texts)}, length)."
            )
        width = given[IDS].shape[1]
        return Encoded(given, np.full(len(texts), width), places)


class TextBox(BlackBox):
    """A torch module over token ids with its tokenizer: takes texts, and takes words away where the module sees them.

    tokenizer: one of transformers, or a function texts -> ids (n, length); if it returns {"input_ids": ..., "offset_mapping":
    ...} with the character places of every token (start = end for padding), words can be masked in place.
    pad, mask: the ids that stand in for a word with the fills "pad" and "mask"; a tokenizer of transformers knows its own.
    embedding: the layer whose rows the fill "zero" scales; by default any `nn.Embedding` that is handed the ids.
    length: texts are cut after so many tokens, with a tokenizer of transformers; by default where the model ends.
    tokens_per_call: how many tokens, padding included, the module is given at once.
    """

    rows_per_call = 1024
    gradients = True
    shows = True

    def __init__(
        self,
        module: nn.Module,
        tokenizer: Any,
        *,
        output: str = "auto",
        class_names: Sequence[str] | None = None,
        pad: int | None = None,
        mask: int | None = None,
        embedding: nn.Module | None = None,
        length: int | None = None,
        tokens_per_call: int = 16_384,
    ) -> None:
        if tokens_per_call < 1:
            raise BadSetting(f"tokens_per_call={tokens_per_call}, wanted at least 1.")
        if comes_from(module, "transformers"):
            output, class_names = "logits" if output == "auto" else output, class_names or labels_of(module)
        self.module, self.embedding, self.tokens_per_call = module, embedding, tokens_per_call
        self.traced_per_call = max(1, tokens_per_call // 4)
        self.output = known_output(output)
        self.class_names = tuple(map(str, class_names)) if class_names is not None else None
        self.tokenizer: Tokenizer = (
            PretrainedTokenizer(tokenizer, longest_input(module, tokenizer, length), pad, mask)
            if comes_from(tokenizer, "transformers")
            else FunctionTokenizer(tokenizer, pad, mask)
        )
        known = {"mask": self.tokenizer.mask, "pad": self.tokenizer.pad}
        self.inside = frozenset({"zero", *(name for name, token in known.items() if token is not None)})
        self.word_fill = "mask" if "mask" in self.inside and self.tokenizer.placed else "delete"

    def _answer(self, inputs: Any) -> Any:
        answer = self._scores(inputs)
        self.output = settled(self.output, answer)
        return normalised(answer, self.output)

    def scores(self, inputs: Any) -> Tensor:
        answer = self._scores(inputs, gradients=True)
        self.output = settled(self.output, answer)
        return centred(answer, self.output)

    def near(self, inputs: Any, move: Move) -> Tensor:
        answer = self._scores(inputs, gradients=True, move=move)
        self.output = settled(self.output, answer)
        return normalised(answer, self.output)

    def _looked(self, inputs: Any) -> tuple[Tensor, Tensor] | None:
        if not isinstance(inputs, GatedTexts) or not len(inputs):
            return None
        encoded = self.tokenizer.encode(list(inputs.texts))
        if encoded.places is None:
            return None
        owner = torch.from_numpy(owners(encoded.places, inputs.spans))  # (n, L)
        order = np.argsort(encoded.lengths, kind="stable")
        answers, seen = [], []
        for rows in self._parts(order, encoded.lengths, encoded.left):
            given = self._given(encoded.rows(rows))
            asked = told_apart(*given[IDS].shape)
            given = {name: v[asked.to(v.device)] for name, v in given.items()}
            with evaluating(self.module), looking(self.module, given[IDS]) as sight:
                answers.append(as_matrix(scores_of(self._called(given)), len(asked))[: len(rows)].cpu())
            if sight.vectors is None:
                return None
            seen.append(of_words(sight.vectors[: len(rows)], of_part(owner[rows], encoded, sight.ids), inputs.spans.shape[1]))
        back = torch.from_numpy(np.argsort(order))
        answer = torch.cat(answers)[back]
        self.output = settled(self.output, answer)
        return normalised(answer, self.output), torch.cat(seen)[back.to(seen[0].device)]

    def _given(self, part: Encoded) -> dict[str, Tensor]:
        """Encoded texts as the module takes them."""
        place = place_of(self.module)
        return {name: torch.from_numpy(v).to(place.device) for name, v in part.inputs.items()}

    def _called(self, given: dict[str, Tensor]) -> Any:
        """What the module returns."""
        return self.module(**given) if self.tokenizer.named else self.module(given[IDS])

    def _scores(self, inputs: Any, *, gradients: bool = False, move: Move | None = None) -> Tensor:
        """What the module says of texts, of texts whose words are kept by a share, or of those whose embeddings are moved."""
        texts = inputs.texts if isinstance(inputs, GatedTexts) else inputs
        if not len(texts):
            return self._scores([""])[:0]
        distinct = {text: i for i, text in enumerate(dict.fromkeys(texts))}  # masks of one text come together
        encoded = self.tokenizer.encode(list(distinct))
        which = np.array([distinct[text] for text in texts])
        words = self._words(inputs, encoded, which) if isinstance(inputs, GatedTexts) else None
        order = np.argsort(encoded.lengths[which], kind="stable")
        parts = self._parts(order, encoded.lengths[which], encoded.left)
        answers = [self._part(encoded, which, words, rows, inputs, gradients, move) for rows in parts]
        return torch.cat(answers)[torch.from_numpy(np.argsort(order))]

    def _parts(self, order: np.ndarray, lengths: np.ndarray, left: bool) -> Iterator[np.ndarray]:
        """Row numbers, shortest texts first, in parts of as many tokens as the module is given at once."""
        start = 0
        while start < len(order):
            longest = np.maximum(lengths[order[start:]], 1)
            fits = int((longest * np.arange(1, len(longest) + 1) <= self.tokens_per_call).sum())
            if left:  # padding before a text would move it to other positions
                fits = min(fits, int((longest == longest[0]).sum()))
            yield order[start : start + max(fits, 1)]
            start += max(fits, 1)

    def _words(self, inputs: GatedTexts, encoded: Encoded, which: np.ndarray) -> np.ndarray:
        """Which feature each token of each distinct text belongs to, (n, L); -1 where it belongs to none."""
        if encoded.places is None:
            raise BadBlackBox(
                f"fill={inputs.fill!r} must know where each token stands in its text, and this tokenizer does not tell. Use a "
                "fast tokenizer of transformers, return offset_mapping beside input_ids, or use fill='delete' or 'replace'."
            )
        _, first = np.unique(which, return_index=True)
        return owners(encoded.places, inputs.spans[first])

    def _part(
        self,
        encoded: Encoded,
        which: np.ndarray,
        words: np.ndarray | None,
        rows: np.ndarray,
        inputs: Any,
        gradients: bool,
        move: Move | None,
    ) -> Tensor:
        """The module's scores for some rows."""
        given = self._given(encoded.rows(which[rows]))
        with ExitStack() as stack:
            stack.enter_context(evaluating(self.module, gradients=gradients))
            if words is not None:
                owner = of_part(torch.from_numpy(words[which[rows]]), encoded, given[IDS])
                index = torch.from_numpy(rows)
                share = inputs.share[index.to(inputs.share.device)].cpu()
                share = torch.where(owner >= 0, share.gather(1, owner.clamp_min(0)), 1.0).to(given[IDS].device)  # (b, L)
                if inputs.fill == "zero":
                    change = scaling(share) if move is None else lambda made: move(index, made, owner)
                    stack.enter_context(embeddings_changed(self.module, self.embedding, given[IDS], change))
                else:
                    given = self._replaced(given, share > 0.5, inputs.fill)
            return as_matrix(scores_of(self._called(given)), len(rows)).cpu()

    def _replaced(self, given: dict[str, Tensor], keep: Tensor, fill: str) -> dict[str, Tensor]:
        """The mask or padding id in place of tokens that are not kept; padding is not looked at."""
        token = self.tokenizer.mask if fill == "mask" else self.tokenizer.pad
        new = given | {IDS: torch.where(keep, given[IDS], torch.tensor(token, device=keep.device, dtype=given[IDS].dtype))}
        if fill == "pad" and SEEN in given:
            new[SEEN] = given[SEEN] * keep
        return new


def of_part(owner: Tensor, encoded: Encoded, ids: Tensor) -> Tensor:
    """What is known of each token, of those that are handed over with these ids: (b, L)."""
    width = ids.shape[1]
    return owner[:, -width:] if encoded.left else owner[:, :width]


def of_words(vectors: Float[Tensor, "b L h"], owner: Int[Tensor, "b L"], words: int) -> Float[Tensor, "b d h"]:
    """The mean of each word's tokens; 0 where none was read."""
    index = (owner + 1).to(vectors.device)  # 0 takes what belongs to no word
    sums = vectors.new_zeros(len(vectors), words + 1, vectors.shape[2])
    sums.scatter_add_(1, index[..., None].expand_as(vectors), vectors)
    count = vectors.new_zeros(len(vectors), words + 1).scatter_add_(1, index, torch.ones_like(index, dtype=vectors.dtype))
    return (sums / count.clamp_min(1)[..., None])[:, 1:]


def owners(places: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """The feature that has most of each token's characters, (n, L); -1 if none has any."""
    far = max(int(places.max(initial=0)), int(spans.max(initial=0))) + 2
    rows, width = np.arange(len(places))[:, None], spans.shape[1]
    filled = spans[..., 1] > spans[..., 0]
    starts, ends = (np.where(filled, spans[..., i], far - 1) for i in (0, 1))  # (n, d), at the far end if none
    first = np.searchsorted((ends + rows * far).ravel(), (places[..., 0] + rows * far).ravel(), side="right")
    first = first.reshape(places.shape[:2]) - rows * width  # (n, L) the first feature that ends behind the token's start
    best, most = np.full(first.shape, -1), np.zeros(first.shape, dtype=np.int64)
    for step in range(MOST_WORDS):
        column = np.clip(first + step, 0, width - 1)
        start, end = np.take_along_axis(starts, column, 1), np.take_along_axis(ends, column, 1)
        shared = np.minimum(end, places[..., 1]) - np.maximum(start, places[..., 0])
        shared = np.where((first + step < width) & (places[..., 1] > places[..., 0]), shared, 0)
        best, most = np.where(shared > most, column, best), np.maximum(shared, most)
    return best


def padded(rows: Sequence[Sequence[Any]], lengths: np.ndarray, value: int, left: bool) -> np.ndarray:
    """Rows of different length as one array, filled up with a value."""
    width = max(int(lengths.max(initial=0)), 1)
    there = np.arange(width) < lengths[:, None]
    if left:
        there = there[:, ::-1]
    flat = np.array([v for row in rows for v in row], dtype=np.int64)
    out = np.full((len(rows), width, *flat.shape[1:]), value, dtype=np.int64)
    out[there] = flat.reshape(-1, *out.shape[2:])
    return out


def longest_input(module: nn.Module, tokenizer: Any, length: int | None) -> int | None:
    """How many tokens of a text are read: as many as wanted, as the tokenizer knows, and as the model has positions for."""
    limits = [UNLIMITED if length is None else length, int(tokenizer.model_max_length)]
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding) and ("position" in name or name.endswith("wpe")):
            limits.append(part.num_embeddings - (0 if part.padding_idx is None else part.padding_idx + 1))
        config = getattr(part, "config", None)
        limits.append(getattr(config, "max_position_embeddings", None) or UNLIMITED)
    return min((limit for limit in limits if 0 < limit < UNLIMITED), default=None)


def comes_from(thing: Any, package: str) -> bool:
    """Whether a thing's class or one it is made from belongs to a package, without importing that package."""
    return any(kind.__module__.split(".")[0] == package for kind in type(thing).__mro__)


def of_pipeline(pipeline: Any, class_names: Sequence[str] | None) -> TextBox:
    """A text-classification pipeline of transformers as a black box, with the settings it was made with."""
    task = getattr(pipeline, "task", None)
    if task not in ("text-classification", "sentiment-analysis"):
        got = f"a pipeline for {task!r}" if task else f"{type(pipeline).__name__}"
        raise BadBlackBox(f"Got {got}, wanted a pipeline for 'text-classification', or aimwise.TextBox(model, tokenizer).")
    before, after = getattr(pipeline, "_preprocess_params", {}), getattr(pipeline, "_postprocess_params", {})
    applied = str(getattr(after.get("function_to_apply"), "value", after.get("function_to_apply") or "softmax")).lower()
    if applied != "softmax":
        raise BadBlackBox(
            f"The pipeline applies {applied!r} to the scores, wanted softmax: probabilities of classes that exclude each other. "
            "Make it with function_to_apply='softmax', or pass a function texts -> (n, C)."
        )
    length = before.get("max_length") if before.get("truncation") else None
    return TextBox(pipeline.model, pipeline.tokenizer, class_names=class_names, length=length)


def labels_of(model: Any) -> list[str]:
    """The names of the classes of a classifier of transformers."""
    config = model.config
    if config.problem_type == "multi_label_classification" or config.num_labels < 2:
        raise BadBlackBox(
            f"The model has {config.num_labels} outputs of the kind {config.problem_type or 'regression'!r}, wanted one "
            "probability for each of several classes that exclude each other. Explain one label: pass a function texts -> (n, 2)."
        )
    return [str(config.id2label.get(i, f"class {i}")) for i in range(config.num_labels)]
