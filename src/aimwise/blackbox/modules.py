"""Torch modules as black boxes, and how the embeddings inside them are kept by a share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from aimwise.blackbox.base import BlackBox, Move, as_matrix, centred, known_output, normalised, settled
from aimwise.blackbox.looking import looking, told_apart
from aimwise.errors import BadBlackBox
from aimwise.gates import GatedIds

Change = Callable[[Tensor], Tensor]


class TorchBox(BlackBox):
    """A torch module that returns logits or probabilities, said or found out on the first call.

    embedding: the layer whose rows are zeroed by the fill "zero"; by default any `nn.Embedding` that is handed the ids.
    """

    inside = frozenset({"zero"})
    gradients = True
    shows = True

    def __init__(
        self,
        module: nn.Module,
        *,
        output: str = "auto",
        class_names: Sequence[str] | None = None,
        embedding: nn.Module | None = None,
    ) -> None:
        self.module = module
        self.output: str = known_output(output)
        self.class_names = tuple(map(str, class_names)) if class_names is not None else None
        self.embedding = embedding

    @property
    def called(self) -> str:
        return type(self.module).__name__

    def _answer(self, inputs: Any) -> Any:
        answer = self._halves(inputs.ids, inputs.share) if isinstance(inputs, GatedIds) else self._halves(as_tensor(inputs), None)
        self.output = settled(self.output, answer)
        return normalised(answer, self.output)

    def scores(self, inputs: Any) -> Tensor:
        gated = isinstance(inputs, GatedIds)
        x, share = (inputs.ids, inputs.share) if gated else (as_tensor(inputs), None)
        answer = self._scores(x, None if share is None else scaling(share), gradients=True)
        self.output = settled(self.output, answer)
        return centred(answer, self.output)

    def near(self, inputs: Any, move: Move) -> Tensor:
        rows = torch.arange(len(inputs))
        if isinstance(inputs, GatedIds):
            owner = torch.arange(inputs.ids.shape[1]).expand_as(inputs.ids)
            answer = self._scores(inputs.ids, lambda made: move(rows, made, owner), gradients=True)
        else:
            place = place_of(self.module)
            x = move(rows, as_tensor(inputs).to(place.device, place.dtype), None)
            answer = self._scores(x, None, gradients=True)
        self.output = settled(self.output, answer)
        return normalised(answer, self.output)

    def _looked(self, inputs: Any) -> tuple[Tensor, Tensor] | None:
        if not isinstance(inputs, Tensor) or inputs.is_floating_point() or inputs.ndim != 2:
            return None
        answers, seen = [], []
        for ids in torch.split(inputs, self.rows_per_call):
            asked = ids[told_apart(*ids.shape).to(ids.device)].to(place_of(self.module).device)
            with looking(self.module, asked) as sight:
                answers.append(self._scores(asked, None)[: len(ids)])
            if sight.vectors is None:
                return None
            seen.append(sight.vectors[: len(ids)])
        answer = torch.cat(answers)
        self.output = settled(self.output, answer)
        return normalised(answer, self.output), torch.cat(seen)

    def _halves(self, x: Tensor, share: Tensor | None) -> Tensor:
        """The scores of all rows; where the GPU's memory is too small for them at once, of one half after the other."""
        try:
            return self._scores(x, None if share is None else scaling(share))
        except torch.cuda.OutOfMemoryError:
            if len(x) < 2:
                raise
        self.rows_per_call = half = len(x) // 2
        parts = (slice(half), slice(half, None))
        return torch.cat([self._halves(x[part], None if share is None else share[part]) for part in parts])

    def _scores(self, x: Tensor, change: Change | None, *, gradients: bool = False) -> Tensor:
        place = place_of(self.module)
        x = x.to(place.device, place.dtype) if x.is_floating_point() else x.to(place.device)
        with ExitStack() as stack:
            stack.enter_context(evaluating(self.module, gradients=gradients))
            if change is not None:
                stack.enter_context(embeddings_changed(self.module, self.embedding, x, change))
            return as_matrix(scores_of(self.module(x)), len(x))


def place_of(module: nn.Module) -> Tensor:
    """A tensor of the device and type that a module's numbers have."""
    return next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), torch.empty(0))


@contextmanager
def evaluating(module: nn.Module, *, gradients: bool = False) -> Iterator[None]:
    """No dropout, and no gradients unless wanted, inside; every part in its own mode again afterwards.

    cuDNN's recurrent networks have gradients while training only, which changes nothing in those that drop nothing.
    """
    modes = {part: part.training for part in module.modules()}
    recurrent = [part for part in modes if isinstance(part, nn.RNNBase)] if gradients else []
    harmless = not any(part.dropout for part in recurrent)
    for part in modes:
        part.training = harmless and part in recurrent
    cudnn = torch.backends.cudnn.enabled
    try:
        torch.backends.cudnn.enabled = cudnn and harmless
        with torch.set_grad_enabled(gradients):
            yield
    finally:
        torch.backends.cudnn.enabled = cudnn
        for part, mode in modes.items():
            part.training = mode


def scaling(share: Tensor) -> Change:
    """How embeddings are kept by a share of each."""
    return lambda made: made * share.to(made.device, made.dtype)[..., None]


@contextmanager
def embeddings_changed(module: nn.Module, embedding: nn.Module | None, ids: Tensor, change: Change) -> Iterator[None]:
    """Inside, what the embedding says of the ids is what `change` makes of it."""
    kept: set[nn.Module] = set()
    other: set[nn.Module] = set()

    def keep(layer: nn.Module, given: tuple[Any, ...], made: Tensor) -> Tensor | None:
        same = bool(given) and isinstance(given[0], Tensor) and torch.equal(given[0], ids)
        if (same and layer in other) or (not same and layer in kept):
            raise BadBlackBox(
                f"The layer that embeds the ids is also handed others (as a decoder's are), which cannot be changed with them. "
                f"Choose a fill other than 'zero', or a method without gradients, for {type(module).__name__}."
            )
        if not same and embedding is None:
            other.add(layer)
            return None
        if made.shape[:2] != ids.shape:
            raise BadBlackBox(
                f"The embedding returned shape {tuple(made.shape)} for ids of shape {tuple(ids.shape)}, wanted one vector for "
                "each id. Pass the layer that embeds the ids, embedding=module..., or choose a fill other than 'zero' and a "
                "method without gradients."
            )
        kept.add(layer)
        return change(made)

    layers = [embedding] if embedding is not None else [part for part in module.modules() if isinstance(part, nn.Embedding)]
    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    if not kept:
        raise BadBlackBox(
            f"Embeddings are to be changed, but no nn.Embedding of {type(module).__name__} was handed the ids. Pass the layer "
            "that embeds them, embedding=module..., or choose a fill other than 'zero' and a method without gradients."
        )


def scores_of(answer: Any) -> Any:
    """The scores in what a module returned: itself, its entry "logits", or the first of several."""
    if isinstance(answer, Mapping):
        if "logits" not in answer:
            raise BadBlackBox(f"The module returned {', '.join(map(str, answer))}, wanted logits among them, or a tensor (n, C).")
        return answer["logits"]
    return answer[0] if isinstance(answer, tuple) and answer else answer


def as_tensor(inputs: Any) -> Tensor:
    """Arrays and frames of numbers for a torch module."""
    if isinstance(inputs, Tensor):
        return inputs
    values = np.array(inputs)
    return torch.from_numpy(values.astype(np.float32) if values.dtype == object else values)
