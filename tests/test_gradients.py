"""Gradients through the gate z: of tables, images and texts in every form, by hand and by differences."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from aimwise import METHODS, Columns, Patches, Pixels, Segments, Tokens, Words
from aimwise.blackbox import FunctionBox, TextBox, TorchBox
from aimwise.errors import BadBlackBox, BadFeatures
from aimwise.explainers import GradientXInput, IntegratedGradients
from aimwise.masked import Masked
from gradient_boxes import (
    GRADIENTS,
    IDS,
    IMAGES,
    RNG,
    TABLE,
    Counted,
    Reader,
    Viewer,
    batch_of,
    make,
    perceptron,
    slope,
    texts,
    tokenizer,
)

FORMS = {
    "array": TABLE,
    "single": TABLE.astype(np.float32),
    "frame": pd.DataFrame(TABLE, columns=list("abcd")),
    "nullable": pd.DataFrame(TABLE, columns=list("abcd")).astype("Float64"),
    "tensor": torch.from_numpy(TABLE),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("at", [0.0, 0.3, 1.0, 1.4])
def test_tables_have_the_gradient_of_the_way_from_the_fill(form, at):
    module, inputs = perceptron(), FORMS[form]
    box, batch = batch_of(module, inputs, Columns(fill="mean"))
    x, fill = torch.tensor(np.asarray(inputs, dtype=np.float64)), box.features.facts_.fills.mean
    z = torch.full((60, 4), at)
    want = z.double().requires_grad_()
    scores = module(fill + want * (x - fill))
    hand = torch.autograd.grad(scores[:, 1].sum(), want)[0]
    got, grad = slope(box, batch, z, 1)
    torch.testing.assert_close(got, scores.detach().float(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(grad, hand.float(), atol=1e-6, rtol=1e-5)
    steps = torch.zeros(60, 4)
    for j in range(4):  # and by differences, which know nothing of autograd
        step = torch.zeros(4, dtype=torch.float64)
        step[j] = 1e-4
        ends = [module(fill + (z.double() + s * step) * (x - fill))[:, 1] for s in (1, -1)]
        steps[:, j] = ((ends[0] - ends[1]) / 2e-4).detach()
    torch.testing.assert_close(grad, steps, atol=1e-4, rtol=1e-3)


def test_whole_cells_are_exact_with_gradients():
    module = nn.Sequential(nn.Linear(4, 2)).double()
    box, batch = batch_of(module, TABLE * 1e6 + 0.1, Columns(fill="mean"))
    got, _ = slope(box, batch, torch.ones(60, 4))
    assert torch.equal(got, module(torch.from_numpy(TABLE * 1e6 + 0.1)).detach().float())


def test_a_missing_cell_stands_still():
    class Patient(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()

        def forward(self, x):
            return self.inner(x.nan_to_num(0.5))

    inputs = TABLE.copy()
    inputs[3, 2] = np.nan
    box, batch = batch_of(Patient(), inputs, Columns(fill="mean"))
    for at in (0.0, 0.5, 1.0):
        scores, grad = slope(box, batch, torch.full((60, 4), at))
        assert torch.isfinite(scores).all()
        assert torch.isfinite(grad).all()
        assert grad[3, 2] == 0
    whole = batch_of(Patient(), TABLE, Columns(fill="mean"))
    assert torch.equal(slope(box, batch, torch.ones(60, 4))[1][:3, 3], slope(*whole, torch.ones(60, 4))[1][:3, 3])


@pytest.mark.parametrize(
    "inputs",
    [
        pd.DataFrame({"x": TABLE[:, 0], "whole": RNG.integers(0, 5, 60), "y": TABLE[:, 1]}),
        pd.DataFrame({"x": TABLE[:, 0], "whole": RNG.choice(["p", "q"], 60)}),
        RNG.integers(0, 5, (60, 3)),
        torch.from_numpy(RNG.integers(0, 5, (60, 3))),
    ],
    ids=["integers", "category", "array", "tensor"],
)
@pytest.mark.parametrize("name", GRADIENTS)
def test_columns_that_cannot_be_shared_are_refused_before_any_question(name, inputs):
    module = Counted(perceptron(3))
    with pytest.raises(BadFeatures, match=r"(whole|column 0).* cannot\. Hand them over as floats"):
        METHODS[name]().fit(module, inputs)
    assert module.asked == 0


def test_whole_numbers_that_are_said_to_be_numbers_have_gradients():
    inputs = torch.from_numpy(RNG.integers(0, 5, (60, 3)))

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron(3)

        def forward(self, x):
            return self.inner(x.double())

    features = Columns(fill="mean", kinds=dict.fromkeys(("column 0", "column 1", "column 2"), "number"))
    got = GradientXInput().fit(Module(), inputs, features=features).explain(inputs[:5])
    assert float(got.weights.abs().amax(0).min()) > 0


@pytest.mark.parametrize("name", GRADIENTS)
def test_boxes_without_gradients_are_refused_before_any_question(name, linear, table):
    for box in (linear, FunctionBox(linear)):
        with pytest.raises(BadBlackBox, match=r"FunctionBox has none\. Hand over the torch module itself"):
            METHODS[name]().fit(box, table)
    assert linear.rows == []
    model = LogisticRegression().fit(table, table[:, 0] > 0)
    with pytest.raises(BadBlackBox, match="SklearnBox has none"):
        METHODS[name]().fit(model, table)


def test_modules_that_cut_the_gradient_are_named():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()

        def forward(self, x):
            return self.inner(x.detach())

    class Without(Cut):
        @torch.no_grad()
        def forward(self, x):
            return self.inner(x)

    for module in (Cut(), Without()):
        with pytest.raises(BadBlackBox, match="No gradient flows"):
            IntegratedGradients().fit(module, TABLE)


def test_modules_that_take_floats_for_something_else_are_named():
    class ByType(Viewer):
        def forward(self, x):
            return super().forward(x / 255 if x.dtype == torch.uint8 else x)

    pictures = (IMAGES * 255).astype(np.uint8)
    with pytest.raises(BadBlackBox, match=r"differ by .* hand over floats"):
        GradientXInput().fit(make(ByType), pictures, features=Patches(2))
    GradientXInput().fit(make(Viewer), pictures, features=Patches(2))


PICTURES = {
    "hw": (IMAGES, Patches(2, fill="mean")),
    "chw": (np.stack([IMAGES, IMAGES[:, ::-1], IMAGES**2], 1), Patches(3, fill="zero")),
    "hwc": (np.stack([IMAGES, IMAGES[:, ::-1], IMAGES**2], 3), Pixels(fill="mean")),
    "double": (IMAGES.astype(np.float64), Patches(4, fill="blur")),
    "tensor": (torch.from_numpy(IMAGES)[:, None], Patches(2, fill="mean", axes="CHW")),
    "flat": (IMAGES.reshape(40, 36), Patches(2, fill="mean", shape=(6, 6))),
    "bytes": ((IMAGES * 255).astype(np.uint8), Patches(2, fill="mean")),
    "segments": (IMAGES, Segments(by=np.arange(36).reshape(6, 6) // 5, fill="mean")),
}


@pytest.mark.parametrize("form", PICTURES)
def test_images_have_the_gradient_of_the_way_from_the_fill(form):
    inputs, features = PICTURES[form]
    module = make(lambda: Viewer(int(np.prod(inputs.shape[1:]))))
    box, batch = batch_of(module, inputs, features)
    none = torch.zeros(batch.present.shape, dtype=torch.float32, requires_grad=True)
    fill = box.features.dim(batch, none, torch.Generator()).detach().double()
    x = torch.from_numpy(np.asarray(inputs)).double().reshape(fill.shape)
    for at in (0.0, 1.0):
        point = (fill + at * (x - fill)).requires_grad_()
        scores = module(point)
        cells = torch.autograd.grad(scores[:, 0].sum(), point)[0] * (x - fill)
        got, grad = slope(box, batch, torch.full(batch.present.shape, at))
        torch.testing.assert_close(got, scores.detach().float(), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(grad, box.features.gathered(batch, cells), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(grad.sum(1), cells.flatten(1).sum(1).float(), atol=1e-5, rtol=1e-4)


def test_numbers_of_cells_are_gathered_by_hand():
    box, batch = batch_of(make(Viewer), *PICTURES["hw"])
    cells = torch.from_numpy(IMAGES)
    want = cells.reshape(40, 3, 2, 3, 2).sum((2, 4)).reshape(40, 9)
    torch.testing.assert_close(box.features.gathered(batch, cells), want)
    features = Columns(groups={"both": ["column 1", "column 3"]}).fit(TABLE)
    got = features.gathered(features.encode(TABLE), torch.from_numpy(TABLE))
    want = np.stack([TABLE[:, 0], TABLE[:, 1] + TABLE[:, 3], TABLE[:, 2]], 1)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-6)


@pytest.mark.parametrize("at", [0.0, 0.6, 1.0])
def test_ids_have_the_gradient_of_scaled_embeddings(at):
    module = make(Reader)
    box, batch = batch_of(module, IDS, Tokens())
    z = torch.full(batch.present.shape, at)
    got, grad = slope(box, batch, z, 2)
    for j in range(7):
        ends = []
        for step in (1e-3, -1e-3):
            share = torch.where(batch.present, at, 1.0).double()
            share[:, j] += step * batch.present[:, j]
            with torch.no_grad():
                vectors = module.embedding(IDS) * share[..., None]
                states, _ = module.gru(vectors)
                ends.append(module.out((states * (IDS > 0)[..., None]).sum(1))[:, 2])
        torch.testing.assert_close(grad[:, j], ((ends[0] - ends[1]) / 2e-3).float(), atol=1e-5, rtol=1e-3)
    assert (grad[~batch.present] == 0).all()
    assert torch.isfinite(got).all()


def test_words_have_the_gradient_of_their_embeddings_whatever_stands_beside_them():
    module, written = make(Reader), texts()
    features = Words().fit(written)
    box = Masked(TextBox(module, tokenizer, output="logits", tokens_per_call=40), features).softened()
    batch = features.encode(written)
    got, grad = slope(box, batch, torch.full(batch.present.shape, 0.7), 1)
    for i in (0, 7, 29):
        ids = torch.from_numpy(tokenizer([written[i]])["input_ids"])
        share = torch.full(ids.shape, 0.7, dtype=torch.float64, requires_grad=True)
        states, _ = module.gru(module.embedding(ids) * share[..., None])
        scores = module.out(states.sum(1))
        hand = torch.autograd.grad(scores[:, 1].sum(), share)[0]
        n = ids.shape[1]
        torch.testing.assert_close(got[i], scores[0].detach().float(), atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(grad[i, :n], hand[0].float(), atol=1e-6, rtol=1e-5)
        assert (grad[i, n:] == 0).all()


def test_one_column_of_logits_speaks_for_one_class_and_against_the_other():
    module = perceptron(classes=1)
    box, batch = batch_of(module, TABLE, Columns(fill="mean"), "binary_logits")
    scores, _ = slope(box, batch, torch.ones(60, 4))
    assert torch.equal(scores[:, 0], -scores[:, 1])
    torch.testing.assert_close(scores.softmax(1), box.whole(batch))
    got = IntegratedGradients().fit(TorchBox(module, output="binary_logits"), TABLE).explain(TABLE[:5])
    assert torch.equal(got.weights[..., 0], -got.weights[..., 1])
    probs = nn.Sequential(perceptron(classes=1), nn.Sigmoid())
    box, batch = batch_of(probs, TABLE, Columns(fill="mean"), "binary_probs")
    torch.testing.assert_close(slope(box, batch, torch.ones(60, 4))[0], box.whole(batch))


@pytest.mark.parametrize("drops", [0.0, 0.5])
def test_a_module_is_left_as_it_was(drops):
    """cuDNN's recurrent networks have gradients in training mode alone, which is safe where they drop nothing."""
    module = make(Reader).train()
    module.gru.dropout = drops
    before, cudnn = torch.backends.cudnn.deterministic, torch.backends.cudnn.enabled
    torch.backends.cudnn.deterministic = True
    try:
        seen = []
        hook = module.gru.register_forward_hook(
            lambda *_: seen.append((module.training, module.gru.training, torch.backends.cudnn.enabled))
        )
        slope(*batch_of(module, IDS, Tokens()), torch.ones(40, 7))
        assert seen == [(False, not drops, cudnn and not drops)]
        hook.remove()
        assert torch.backends.cudnn.deterministic
        assert module.training
        assert module.gru.training
        assert torch.backends.cudnn.enabled == cudnn
        assert all(parameter.grad is None for parameter in module.parameters())
    finally:
        torch.backends.cudnn.deterministic = before
