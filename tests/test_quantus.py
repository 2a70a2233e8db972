"""Metrics of images against those of the package quantus, where it is installed (it is no dependency)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import aimwise
from aimwise.metrics import METRICS, ablations
from aimwise.metrics.faithfulness import of_class

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    quantus = pytest.importorskip("quantus", reason="needs the package quantus: pip install quantus")

STEP = 8


def test_removing_pixel_after_pixel_is_quantus_pixel_flipping():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)).eval()
    images = np.random.default_rng(0).random((20, 1, 8, 8)).astype(np.float32)
    box = aimwise.TorchBox(module, output="logits")
    explainer = aimwise.METHODS["occlusion"]().fit(box, images, features=aimwise.Pixels(fill="zero"))
    explanation = explainer.explain(images)
    ks = tuple(range(STEP, 65, STEP))
    ours = torch.stack([of_class(one.rest[0], one.target) for one in ablations(explainer.box_, images, explanation, ks=ks)], 1)
    metric = quantus.PixelFlipping(
        features_in_step=STEP, normalise=False, perturb_baseline=0.0, disable_warnings=True, display_progressbar=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = metric(
            model=module,
            x_batch=images,
            y_batch=explanation.prediction.numpy(),
            a_batch=explanation.towards().reshape(20, 1, 8, 8).numpy(),
            softmax=True,
            device="cpu",
        )
    np.testing.assert_allclose(ours.numpy(), np.array(theirs), atol=1e-5)
    lost = METRICS["comprehensiveness"].measure(ablations(explainer.box_, images, explanation, ks=(STEP,))[0])
    whole = of_class(explanation.probs, explanation.prediction)
    np.testing.assert_allclose(lost.numpy(), whole.numpy() - np.array(theirs)[:, 0], atol=1e-5)
