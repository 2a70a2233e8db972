"""Pixels, patches and segments: forms of images, fills, masks by hand, and models over images explained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import aimwise
from aimwise import Patches, Pixels, Segments
from aimwise.errors import BadFeatures, BadFile, BadSetting, UnknownName
from aimwise.features.image_fills import IMAGE_FILLS
from aimwise.features.pictures import as_stack
from aimwise.metrics import ablate
from aimwise.metrics.faithfulness import faithfulness

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 9, 12), dtype=np.uint8)
COLOUR = RNG.random((6, 3, 10, 10)).astype(np.float32)
LAST = np.moveaxis(COLOUR, 1, -1)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def dimmed(features, inputs, z):
    features = features.fit(inputs)
    batch = features.encode(inputs)
    return features.dim(batch, torch.as_tensor(z, dtype=torch.float32).expand(batch.present.shape), gen())


@pytest.mark.parametrize(
    "inputs",
    [
        GREY,
        GREY.astype(np.float64),
        GREY.astype(np.uint16),
        torch.from_numpy(GREY),
        COLOUR,
        LAST,
        torch.from_numpy(COLOUR),
        [row for row in GREY],  # noqa: C416
        [Image.fromarray(row) for row in GREY],
        [Image.fromarray((255 * row).astype(np.uint8)) for row in LAST],
    ],
    ids=["grey", "double", "uint16", "tensor", "first", "last", "first tensor", "list", "pil", "pil colour"],
)
@pytest.mark.parametrize("make", [Pixels, lambda: Patches(4), lambda: Segments(n=6)], ids=["pixels", "patches", "segments"])
def test_images_of_every_form_come_back_in_that_form(inputs, make):
    kept = dimmed(make(), inputs, 1.0)
    assert type(kept) is (np.ndarray if isinstance(inputs, list) and isinstance(inputs[0], np.ndarray) else type(inputs))
    if isinstance(kept, list):
        assert [(one.mode, one.size) for one in kept] == [(one.mode, one.size) for one in inputs]
        pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(kept, inputs, strict=True)]
    else:
        assert kept.dtype == (inputs[0] if isinstance(inputs, list) else inputs).dtype
        pairs = [(np.asarray(kept), np.asarray(inputs))]
    for got, wanted in pairs:
        np.testing.assert_allclose(got, wanted)


def test_axes_are_found_where_certain_and_asked_for_where_not():
    assert [as_stack(x).axes for x in (GREY, COLOUR, LAST)] == ["HW", "CHW", "HWC"]
    assert as_stack(np.zeros((5, 3, 8, 3)), axes="HWC").data.shape == (5, 3, 3, 8)
    with pytest.raises(BadFeatures, match="both could be 1, 3 or 4"):
        as_stack(np.zeros((5, 3, 8, 3)))
    with pytest.raises(BadFeatures, match="neither is 1, 3 or 4"):
        as_stack(np.zeros((5, 7, 8, 9)))
    flat = GREY.reshape(6, -1)
    stack = as_stack(flat, shape=(9, 12))
    assert stack.data.shape == (6, 1, 9, 12)
    assert stack.like(stack.data.float()).shape == (6, 108)


def test_patches_that_do_not_divide_the_image_by_hand():
    features = Patches(5, fill="zero").fit(GREY)  # 9 x 12 in squares of 5: 2 x 3
    assert features.names[:2] == ("rows 0-4, columns 0-4", "rows 0-4, columns 5-9")
    assert features.names[-1] == "rows 5-8, columns 10-11"
    z = [0.0, 1, 0, 0, 0, 1]
    got = dimmed(Patches(5, fill="zero"), GREY, z)
    wanted = np.zeros_like(GREY)
    wanted[:, :5, 5:10] = GREY[:, :5, 5:10]
    wanted[:, 5:, 10:] = GREY[:, 5:, 10:]
    np.testing.assert_array_equal(got, wanted)
    batch = features.encode(GREY)
    np.testing.assert_allclose(features.values(batch)[:, 5], GREY[:, 5:, 10:].mean((1, 2)), rtol=1e-6)
    assert features.regions(batch)[0, 8, 11] == 5


def test_pixels_keep_all_channels_together():
    z = torch.zeros(100)
    z[23] = 1.0
    got = dimmed(Pixels(fill="zero"), COLOUR, z)
    wanted = np.zeros_like(COLOUR)
    wanted[:, :, 2, 3] = COLOUR[:, :, 2, 3]
    np.testing.assert_array_equal(got, wanted)
    half = dimmed(Pixels(fill="zero"), COLOUR, 0.5)
    np.testing.assert_allclose(half, COLOUR / 2, rtol=1e-6)


def test_segments_of_a_label_map_and_of_a_function():
    halves = np.repeat([[7, 3]], 9, 0).repeat(6, 1)  # left 7, right 3: 3 becomes feature 0
    for by in (halves, lambda image: halves):
        features = Segments(by=by, fill="zero").fit(GREY)
        batch = features.encode(GREY)
        assert batch.present.shape == (6, 2)
        got = features.dim(batch, torch.tensor([[1.0, 0.0]]).expand(6, 2), gen())
        assert (got[:, :, :6] == 0).all()
        np.testing.assert_array_equal(got[:, :, 6:], GREY[:, :, 6:])
    gate = features.spread(batch, torch.rand(6, 3, 2))
    assert gate.shape == (6, 3, 9, 12)


def test_slic_finds_the_parts_of_a_picture():
    pictures = np.zeros((2, 24, 24, 3), dtype=np.uint8)
    pictures[:, 6:18, 6:18] = (200, 30, 30)
    features = Segments(n=12).fit(pictures)
    regions = features.regions(features.encode(pictures))
    inside, outside = set(regions[0, 7:17, 7:17].ravel()), set(regions[0, :5].ravel())
    assert not inside & outside
    assert 3 <= regions.max() + 1 <= 40


def test_fills_by_hand():
    z = 0.0
    mean = dimmed(Patches(3), COLOUR, z)
    np.testing.assert_allclose(mean, np.broadcast_to(COLOUR.mean((0, 2, 3))[:, None, None], COLOUR.shape), rtol=1e-5)
    assert (dimmed(Patches(3, fill="zero"), GREY, z) == 0).all()
    given = dimmed(Patches(3, fill="background", background=COLOUR[1]), COLOUR, z)
    np.testing.assert_allclose(given, np.broadcast_to(COLOUR[1], COLOUR.shape))
    several = Patches(3, fill="background", background=COLOUR[:3]).fit(COLOUR)
    assert several.random
    assert all(any((row == one).all() for one in COLOUR[:3]) for row in dimmed(several, COLOUR, z))
    noise = dimmed(Patches(3, fill="noise"), np.tile(COLOUR, (40, 1, 1, 1)), z)
    assert abs(noise.mean() - COLOUR.mean()) < 0.02
    assert noise.min() >= COLOUR.min()
    assert noise.max() <= COLOUR.max()
    flat = np.full((3, 12, 12), 0.4, dtype=np.float32)
    np.testing.assert_allclose(dimmed(Patches(3, fill="blur"), flat, z), flat, rtol=1e-5)
    blurred = dimmed(Patches(3, fill="blur"), COLOUR, z)
    assert blurred.std() < 0.5 * COLOUR.std()


@pytest.mark.parametrize("make", [Pixels, lambda: Patches(3), lambda: Segments(n=5)], ids=["pixels", "patches", "segments"])
@pytest.mark.parametrize("recipe", ["default", "paper", "released"])
def test_networks_for_images_of_any_size(make, recipe):
    from aimwise.nn.build import family

    for inputs in (RNG.random((2, 8, 8)), RNG.random((2, 3, 33, 50))):
        features = make().fit(inputs)
        batch, made = features.encode(inputs), family("image", recipe)
        d = batch.present.shape[1]
        W = made.explainer(features.layout, 4)(batch.x, torch.full((2, 4), 0.25))
        pi = made.selector(features.layout)(batch.x)
        scores = made.approximator(features.layout, 4)(batch.x, features.spread(batch, pi))
        assert (W.shape, pi.shape, scores.shape) == ((2, d, 4), (2, d), (2, 4))


def test_random_masks_of_a_fine_grid_come_in_blocks_and_of_a_coarse_one_do_not():
    fine, coarse = Pixels().fit(np.zeros((2, 24, 30))), Patches(6).fit(np.zeros((2, 24, 30)))
    noise = fine.noise((40, 30, 720), gen()).reshape(40, 30, 24, 30)
    assert abs(noise.mean() - 0.5) < 0.01
    alike = (noise[..., 1:] == noise[..., :-1]).float().mean((0, 2, 3))  # by mask: none, half, three quarters of the neighbours
    assert alike.min() == 0
    assert 0.7 < alike.max() < 0.8
    noise = coarse.noise((40, 30, 20), gen())
    assert (noise[..., 1:] == noise[..., :-1]).float().mean() < 0.001


def planted(rows, *, seed=0):
    """Noise, the last patch bright or dark, with a bar across or down in one of nine patches."""
    rng = np.random.default_rng(seed)
    images = rng.random((rows, 1, 15, 15)).astype(np.float32) * 0.3
    images[:, :, 10:, 10:] += rng.choice([0.0, 0.4], (rows, 1, 1, 1))
    place, label = rng.integers(0, 9, rows), rng.integers(0, 2, rows)
    for i, (p, c) in enumerate(zip(place, label, strict=True)):
        r, k = 5 * (p // 3), 5 * (p % 3)
        images[i, 0, r + 2 if c else slice(r, r + 5), slice(k, k + 5) if c else k + 2] = 1.0
    return images, place


class Bars(nn.Module):
    """Looks for a bright bar across or down anywhere."""

    def forward(self, x):
        across = nn.functional.avg_pool2d(x, (1, 5), stride=1).amax((1, 2, 3))
        down = nn.functional.avg_pool2d(x, (5, 1), stride=1).amax((1, 2, 3))
        return 12 * torch.stack([down, across], 1)


class Corner(nn.Module):
    """Looks at the brightness of the last patch alone, whatever stands elsewhere."""

    def forward(self, x):
        bright = x[:, 0, 10:, 10:].mean((1, 2)) - 0.35
        return torch.stack([-20 * bright, 20 * bright], 1)


def test_the_planted_patch_is_on_top_if_and_only_if_the_model_looks_at_it(tmp_path):
    train, _ = planted(600)
    test, place = planted(200, seed=1)
    explainer = aimwise.AIM(epochs=10).fit(aimwise.TorchBox(Bars(), output="logits"), train, features=Patches(5))
    explanation = explainer.explain(test, top=1)
    assert (explanation.order()[:, 0].numpy() == place).mean() >= 0.98
    assert explanation.images.shape == (200, 15, 15)
    assert explanation.trial.kept.shape == (200, 2)
    assert explanation.trial.kept_images.shape == (200, 15, 15)
    assert (explanation.trial.kept.argmax(1) == explanation.prediction).float().mean() > 0.95
    back = aimwise.load(explainer.save(tmp_path / "x"), aimwise.TorchBox(Bars(), output="logits"))
    assert torch.equal(back.explain(test).weights, explanation.weights)
    again = aimwise.Explanation.from_json(explanation[:3].to_json())
    np.testing.assert_array_equal(again.images, explanation.images[:3])
    np.testing.assert_array_equal(again.trial.rest_images, explanation.trial.rest_images[:3])
    np.testing.assert_array_equal(again.regions, explanation.regions)

    other = aimwise.AIM(epochs=10).fit(aimwise.TorchBox(Corner(), output="logits"), train, features=Patches(5))
    top = other.explain(test).order(by="size")[:, 0].numpy()
    rows = (place != 8) & (test[:, 0, 10:, 10:].mean((1, 2)) > 0.4)  # where the last patch is dark it looks like the fill
    assert rows.sum() > 50
    assert (top[rows] == 8).mean() >= 0.98
    assert (top[rows] == place[rows]).mean() == 0, "a patch that does not matter is not on top"


@pytest.mark.parametrize("features", [Pixels(fill="zero"), Patches(2, fill="zero"), Segments(n=12, fill="mean")], ids=str)
def test_a_classifier_of_flat_pixels_is_explained(features):
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    data = load_digits()
    images = data.images.astype(np.float32)
    model = LogisticRegression(max_iter=2000).fit(data.data, data.target)
    explainer = aimwise.AIM(epochs=6, most_queries=60_000).fit(model, images[:1200], features=features)
    explanation = explainer.explain(images[1200:1400], check=8)
    assert explanation.check.agreement.mean() > explanation.check.without.mean() + 0.15
    k = max(1, explanation.weights.shape[1] // 3)
    random = aimwise.Random().fit(model, images[:50], features=features).explain(images[1200:1400])
    ours, chance = (faithfulness(ablate(explainer.box_, images[1200:1400], e, k=k)).mean() for e in (explanation, random))
    assert ours > chance + 0.15


def test_flat_rows_are_images_if_their_shape_is_said():
    rows = RNG.random((40, 64))
    box = lambda x: np.stack([x[:, :32].mean(1), 1 - x[:, :32].mean(1)], 1)  # noqa: E731
    explainer = aimwise.AIM(epochs=2).fit(box, rows, features=Patches(4, shape=(8, 8)))
    assert explainer.explain(rows[:3]).weights.shape == (3, 4, 2)


@pytest.mark.parametrize("fill", IMAGE_FILLS)
def test_metrics_run_under_every_fill(fill):
    images = RNG.random((30, 8, 8)).astype(np.float32)
    box = lambda x: np.stack([x.mean((1, 2)), 1 - x.mean((1, 2))], 1)  # noqa: E731
    features = Patches(4, background=images[:2])
    explainer = aimwise.AIM(epochs=1).fit(box, images, features=features)
    ablation = ablate(explainer.box_, images, explainer.explain(images), k=2, fill=fill)
    assert torch.isfinite(ablation.kept).all()
    assert len(ablation.kept) == (10 if fill in ("noise", "background") else 1)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: aimwise.AIM().fit(lambda x: x, GREY), BadFeatures, r"aimwise\.Patches\(side\)"),
        (lambda: aimwise.AIM().fit(lambda x: x, [Image.fromarray(GREY[0])] * 3), BadFeatures, "features of images"),
        (lambda: Patches(0).fit(GREY), BadSetting, "side=0"),
        (lambda: Segments(n=0).fit(GREY), BadSetting, "n=0"),
        (lambda: Patches(3, fill="grey").fit(GREY), UnknownName, "fill 'grey'"),
        (lambda: Patches(3, fill="background").fit(GREY), BadSetting, "pass background="),
        (lambda: Patches(3, background=GREY[:, :5]).fit(GREY), BadFeatures, r"background has shape \(1, 5, 12\)"),
        (lambda: Patches(3, axes="WH").fit(GREY), BadSetting, "axes='WH'"),
        (lambda: Patches(3).fit(GREY).encode(GREY[:, :5]), BadFeatures, r"Got images of \(1, 5, 12\).*wanted \(1, 9, 12\)"),
        (lambda: Patches(3, shape=(5, 5)).fit(np.zeros((4, 24))), BadFeatures, "Rows of 24 numbers"),
        (lambda: Pixels().fit(np.full((2, 4, 4), np.nan)), BadFeatures, "not finite"),
        (lambda: Pixels().fit(np.array([["a"]])), BadFeatures, "wanted numbers"),
        (lambda: Pixels().fit([GREY[0], GREY[0, :4]]), BadFeatures, "differ in shape"),
        (lambda: Segments(by=np.zeros((4, 4))).fit(GREY).encode(GREY), BadFeatures, r"label map of float64 \(4, 4\)"),
        (lambda: Segments(by=lambda i: i > 1).fit(GREY).config(), BadFeatures, "cannot be saved"),
    ],
)
def test_bad_images_are_named(use, error, message):
    with pytest.raises(error, match=message):
        use()


def test_numbers_are_kept_exactly_where_nothing_is_taken_away():
    for values in (
        np.full((3, 4, 4), 2**31 + 5, dtype=np.int64),
        np.full((3, 4, 4), 2**24 + 1, dtype=np.int32),
        np.full((3, 4, 4), 0.1, dtype=np.float64),
        np.full((3, 4, 4), 300, dtype=np.uint16),
        np.full((3, 4, 4), 1.5, dtype=">f4"),
    ):
        kept = dimmed(Patches(2, fill="zero"), values, [1.0, 0, 0, 1])
        assert kept.dtype == values.dtype
        np.testing.assert_array_equal(kept[:, :2, :2], values[:, :2, :2])
        assert (kept[:, :2, 2:] == 0).all()


def test_thin_images_are_blurred_along_their_length():
    thin = RNG.random((2, 1, 200))
    assert dimmed(Patches(10, fill="blur"), thin, 0.0).std() < 0.3 * thin.std()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: Patches(4).fit([Image.fromarray(GREY[0]).convert("RGB").convert("HSV")] * 2), "mode 'HSV'"),
        (lambda: Patches(4).fit([Image.fromarray(GREY[0]), GREY[0]]), "Some of the images are PIL"),
        (lambda: Patches(4).fit(COLOUR).encode((255 * COLOUR).astype(np.uint8)), "Got images of whole numbers, wanted floats"),
        (lambda: Segments(by=lambda image: 1 / 0).fit(GREY).encode(GREY), "image 0 into segments raised ZeroDivisionError"),
    ],
)
def test_more_bad_images_are_named(use, message):
    with pytest.raises((BadFeatures, BadSetting), match=message):
        use()


def test_a_checkpoint_of_another_background_is_not_continued(tmp_path):
    images = RNG.random((40, 8, 8)).astype(np.float32)
    box = lambda x: np.stack([x.mean((1, 2)), 1 - x.mean((1, 2))], 1)  # noqa: E731
    for level in (0.0, 1.0):
        features = Patches(4, fill="background", background=np.full((8, 8), level, dtype=np.float32))
        fit = lambda features=features: aimwise.AIM(epochs=1, least_rows=40).fit(box, images, features=features, folder=tmp_path)  # noqa: E731
        if level:
            with pytest.raises(BadFile, match="other settings, data, features"):
                fit()
        else:
            fit()
