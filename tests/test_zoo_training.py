"""Networks over images, and what training leaves behind: the best epoch, honest accuracies, whole files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from aimwise.data import Dataset, Split, load, trained
from aimwise.data.catalog import CATALOG
from aimwise.data.networks import IMAGE_NETWORKS, DigitsCNN, PaperCNN
from aimwise.data.readers import Reader
from aimwise.data.trained import CONFIG, WEIGHTS, Recipe
from aimwise.data.viewers import RECIPES, Viewer, train_viewer
from aimwise.device import repeatable, resolve_device
from aimwise.errors import BadFeatures, BadFile, BadSetting, UnknownName
from aimwise.training import Plan
from test_data import needs

SIDES = {"paper_cnn": (28, 255), "digits_cnn": (8, 16)}


def toy(rows=96, noise=False):
    """Three classes by where the light is, or by chance."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(3):
        labels = rng.integers(0, 3, rows).astype(np.int64)
        images = rng.integers(0, 5, (rows, 8, 8)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 * label : 2 * label + 3] += 11
        parts.append(Split(images, rng.permutation(labels) if noise else labels))
    return Dataset("digits", parts[0], parts[1], ("top", "middle", "low"), "toy", dev=parts[2])


@pytest.fixture
def quick(monkeypatch):
    """Short epochs for the toy."""
    monkeypatch.setitem(RECIPES, "digits", Recipe("digits_cnn", Plan(epochs=4, batch_size=16, lr=5e-3, patience=5)))


# --- the networks


def test_the_papers_network_has_the_papers_sizes():
    sizes = [p.numel() for p in PaperCNN(3).parameters()]
    assert sizes == [250, 10, 5000, 20, 16_000, 50, 150, 3]


@pytest.mark.parametrize("network", IMAGE_NETWORKS)
def test_images_are_taken_as_released(network):
    side, top = SIDES[network]
    module = IMAGE_NETWORKS[network](4).eval()
    images = torch.from_numpy(np.random.default_rng(0).integers(0, top + 1, (5, side, side)).astype(np.uint8))
    with torch.no_grad():
        usual = module(images)
        assert usual.shape == (5, 4)
        for same in (images.float(), images.double(), images.long(), images[:, None], images[:, None].float()):
            assert torch.equal(module(same), usual)
        torch.testing.assert_close(module.head(module.filters(images[:, None].float() / top)), usual)
        assert module(images[:0]).shape == (0, 4)
        assert module.double()(images).dtype == torch.float64


@pytest.mark.parametrize("network", IMAGE_NETWORKS)
def test_other_images_are_named(network):
    side, top = SIDES[network]
    module = IMAGE_NETWORKS[network](4)
    for shape in ((2, 3, side, side), (2, side + 1, side), (side, side), (2, side * side)):
        with pytest.raises(BadFeatures, match=rf"\(n, {side}, {side}\).*from 0 to {top}, got \({shape[0]}, "):
            module(torch.zeros(shape))


def test_pixels_have_gradients():
    images = torch.rand(2, 28, 28, requires_grad=True)
    PaperCNN(3)(images).sum().backward()
    assert images.grad.abs().sum() > 0


# --- training


def test_a_viewer_learns_and_is_a_black_box(quick):
    data = toy()
    state = torch.get_rng_state()
    made = train_viewer(data, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert (made.data, made.seed, made.epochs, made.stopped, made.classes) == ("digits", 3, 4, "epochs", data.classes)
    probs = made(data.test.inputs)
    torch.testing.assert_close(probs.sum(1), torch.ones(len(data.test)))
    assert made.test_accuracy == np.mean(probs.argmax(1).numpy() == data.test.labels) > 0.9
    assert torch.equal(made(torch.from_numpy(data.test.inputs)), probs)
    assert torch.equal(made(list(data.test.inputs)), probs)
    assert not made.module.training
    with pytest.raises(UnknownName, match="image black box 'wine'"):
        train_viewer(replace(data, name="wine"))


def test_accuracies_are_those_of_the_kept_weights(quick):
    data = toy(noise=True)
    made = train_viewer(data, epochs=6)
    for split, said in ((data.dev, made.accuracy), (data.test, made.test_accuracy)):
        assert said == np.mean(made(split.inputs).argmax(1).numpy() == split.labels)
    assert made.accuracy != made.test_accuracy


def test_the_test_part_chooses_nothing(quick):
    data = toy()
    wrong = Split(data.test.inputs, (data.test.labels + 1) % 3)
    made, other = train_viewer(data), train_viewer(replace(data, test=wrong))
    assert torch.equal(made(data.test.inputs), other(data.test.inputs))
    assert made.accuracy == other.accuracy > 0.9
    assert other.test_accuracy < 0.1


def test_without_a_dev_part_the_test_part_chooses(quick):
    made = train_viewer(replace(toy(noise=True), dev=None))
    assert made.accuracy == made.test_accuracy < 0.9


def scores(monkeypatch, values):
    """Let epochs be judged by these numbers, or stop at an error among them; the last ones judge the test part."""
    given = iter(values)

    def judge(probs, labels):
        value = next(given)
        if isinstance(value, BaseException):
            raise value
        return value

    monkeypatch.setattr(trained, "share_right", judge)


def test_five_epochs_without_a_better_one_end_it(quick, monkeypatch):
    scores(monkeypatch, [0.5, 0.7, 0.6, 0.7, 0.6, 0.6, 0.1, 0.65])
    made = train_viewer(toy(), epochs=50)
    assert (made.epochs, made.stopped, made.accuracy, made.test_accuracy) == (7, "patience", 0.7, 0.65)
    assert all(recipe.plan.patience == 5 for recipe in RECIPES.values())


def test_ctrl_c_keeps_the_best_epoch_so_far(quick, monkeypatch, caplog):
    def run(values, epochs):
        with monkeypatch.context() as patch:
            scores(patch, values)
            return train_viewer(toy(), epochs=epochs)

    made = run([0.5, 0.7, 0.6, KeyboardInterrupt(), 0.65], 50)
    assert (made.epochs, made.stopped, made.accuracy, made.test_accuracy) == (3, "interrupted", 0.7, 0.65)
    assert "interrupted in epoch 3; epoch 1, the best so far, is kept" in caplog.text
    assert {record.name for record in caplog.records} == {"aimwise"}
    inputs = toy().test.inputs
    assert torch.equal(made(inputs), run([0.5, 0.7, 0.65], 2)(inputs))
    assert not torch.equal(made(inputs), run([0.5, 0.7, 0.8, 0.65], 3)(inputs))
    with pytest.raises(KeyboardInterrupt):
        run([KeyboardInterrupt()], 50)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"device": "tpu"}, "device='tpu'"),
        ({"seed": 2**64}, "seed=1844"),
    ],
)
def test_bad_settings_are_named(settings, said):
    with pytest.raises(BadSetting, match=said):
        train_viewer(toy(), **settings)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_named():
    with pytest.raises(BadSetting, match=r"device='cuda'.*no GPU here"):
        train_viewer(toy(), device="cuda")
    assert resolve_device("auto") == torch.device("cpu")


# --- files


@pytest.fixture
def made():
    torch.manual_seed(0)
    facts = {"data": "digits", "seed": 7, "epochs": 3, "stopped": "patience", "accuracy": 0.5, "test_accuracy": 0.25}
    return Viewer(network="digits_cnn", module=DigitsCNN(3).eval(), classes=("a", "b", "c"), **facts)


def test_everything_comes_back_from_disk(made, tmp_path):
    path = made.save(tmp_path / "box")
    assert sorted(p.name for p in path.iterdir()) == [CONFIG, WEIGHTS]
    back = Viewer.load(str(path))
    for name in ("network", "classes", *trained.FACTS):
        assert getattr(back, name) == getattr(made, name)
    assert torch.equal(back(toy().test.inputs), made(toy().test.inputs))
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in back.module.parameters())


def test_damaged_files_are_named(made, tmp_path):
    path = made.save(tmp_path / "box")
    config, weights = (path / CONFIG).read_text(), (path / WEIGHTS).read_bytes()

    def refused(match):
        with pytest.raises(BadFile, match=match) as caught:
            Viewer.load(path)
        assert str(path) in str(caught.value)

    (path / WEIGHTS).write_bytes(weights[:-4])
    refused(f"{WEIGHTS} is missing or is not the file")
    (path / WEIGHTS).write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    refused(f"{WEIGHTS} is missing or is not the file")
    (path / WEIGHTS).unlink()
    refused(f"{WEIGHTS} is missing")
    (path / WEIGHTS).write_bytes(weights)
    for key, value, said in (
        ("network", "resnet", "is damaged .KeyError: 'resnet'"),
        ("classes", ["a", "b"], "is damaged .RuntimeError"),
        ("classes", 3, "is damaged .TypeError"),
        ("version", 2, "'version': 2"),
        ("format", "other", "'format': 'other'"),
    ):
        (path / CONFIG).write_text(json.dumps(json.loads(config) | {key: value}))
        refused(said)
    for text in ("[]", "{", ""):
        (path / CONFIG).write_text(text)
        refused(CONFIG)
    (path / CONFIG).unlink()
    refused("FileNotFoundError")


def test_a_network_of_another_kind_is_named(made, tmp_path):
    with pytest.raises(BadFile, match=r"'kind': 'viewer'.*wanted.*'kind': 'reader'.*Reader.save"):
        Reader.load(made.save(tmp_path / "box"))


# --- the real ones


def test_the_embedded_digits_are_learned():
    made = train_viewer(load("digits"), epochs=6)
    assert made.test_accuracy >= 0.96


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"), [("digits", 0.96), ("mnist3", 0.975), ("fashion3", 0.959), ("mnist", 0.98), ("fashion_mnist", 0.87)]
)
def test_the_papers_accuracies_are_reached(name, least):
    if CATALOG[name].files:
        needs(CATALOG[name].folder)
    made = train_viewer(load(name), device="auto")
    assert made.test_accuracy >= least


def test_a_training_on_a_gpu_can_be_made_again_as_far_as_torch_can():
    before = torch.are_deterministic_algorithms_enabled()
    with repeatable(torch.device("cuda")):
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.are_deterministic_algorithms_enabled() == before
    with repeatable(torch.device("cpu")):  # needs nothing there
        assert torch.are_deterministic_algorithms_enabled() == before
