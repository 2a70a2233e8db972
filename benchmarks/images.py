"""The paper's image tables: AIM beside captum's integrated gradients on the same network, which is trained once and kept.

    python -m benchmarks.images [--sets mnist3 fashion3 mnist digits] [--seeds 5] [--out results/images.json]

Every cell (data set, features, method, seed) is written to the file when it is done; the same command goes on with those that are
missing. Faithfulness is the share of test images whose prediction the K features that speak most for it keep, the others set to
zero as in the paper. Class-specific: the share of test images that the K features that speak most for a class turn to it.
Integrated gradients: captum's own, baseline zero, 50 steps, summed over a patch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.data import Dataset, load, zoo
from aimwise.errors import Collapsed
from aimwise.explanation import Explanation
from aimwise.files import sha256, write_text
from aimwise.metrics import ablate
from aimwise.metrics.faithfulness import faithfulness

FILL = "zero"
KINDS = {"patches": ((1, 2, 3, 5, 8, 10), (5, 8, 10)), "pixels": ((50, 100, 200, 300, 400), (200, 300, 400))}
SIDES = {"digits": 2}  # of patches; 7 for 28 x 28
DIGIT_KS = {"pixels": (5, 10, 20), "patches": (3, 5, 8)}
CELLS = [
    *((name, "patches", method) for method in ("default", "integrated gradients", "random") for name in ("mnist3", "fashion3")),
    *((name, "pixels", method) for method in ("default", "integrated gradients", "random") for name in ("mnist3", "fashion3")),
    *((name, "patches", "paper") for name in ("mnist3", "fashion3")),
    *((name, "patches", method) for method in ("default", "integrated gradients") for name in ("mnist", "digits")),
    *(("digits", "pixels", method) for method in ("default", "integrated gradients")),
]


def features(name: str, kind: str) -> aimwise.Features:
    return aimwise.Pixels(fill=FILL) if kind == "pixels" else aimwise.Patches(SIDES.get(name, 7), fill=FILL)


def method(name: str) -> aimwise.Explainer:
    if name == "paper":
        return aimwise.AIM.paper(alpha=0.5)  # the paper's alpha for images
    if name == "default":
        return aimwise.AIM()
    return aimwise.Random()


def integrated_gradients(module: torch.nn.Module, data: Dataset, like: Explanation) -> Explanation:
    """Captum's integrated gradients of every class, summed over each feature."""
    from captum.attr import IntegratedGradients

    attribute = IntegratedGradients(module).attribute
    weights = torch.zeros_like(like.weights)
    regions = torch.from_numpy(like.regions[0]).flatten()
    for start in range(0, len(like), 64):
        x = torch.from_numpy(data.test.inputs[start : start + 64]).float().requires_grad_()
        for c in range(len(like.classes)):
            found = attribute(x, baselines=0.0, target=c, n_steps=50, internal_batch_size=3200).float()
            weights[start : start + 64, :, c].index_add_(1, regions, found.detach().flatten(1))
    return replace(like, weights=weights, method="integrated gradients")


def cell(name: str, kind: str, how: str, seed: int) -> dict[str, object]:
    """One method on one data set with one seed, and its figures on the test part."""
    data, kept = load(name), zoo.kept(name)
    box = aimwise.TorchBox(kept.network.module, output="logits", class_names=data.classes)
    explainer = method(how)
    done: dict[str, object] = {"data": name, "features": kind, "method": how, "seed": seed, "settings": repr(explainer)}
    done |= {"box_accuracy": kept.network.test_accuracy, "box_sha256": sha256(kept.path / "weights.safetensors"), "fill": FILL}
    try:
        explainer.fit(box, data.train.inputs, features=features(name, kind), seed=seed)
    except Collapsed as e:
        return {**done, "collapsed": str(e)}
    started = time.perf_counter()
    explanation = explainer.explain(data.test.inputs)
    done |= {"explain_seconds": time.perf_counter() - started, "images": len(explanation)}
    if how == "integrated gradients":
        explanation = integrated_gradients(kept.network.module, data, explanation)
        done["explain_seconds"] = time.perf_counter() - started
    elif how != "random":
        done |= {"fit_seconds": explainer.fit_seconds_, "queries": explainer.queries_, "epochs": len(explainer.history_)}
    ks = DIGIT_KS[kind] if name == "digits" else KINDS[kind][0]
    for k in ks:
        done[f"faithfulness@{k}"] = 100 * float(faithfulness(ablate(explainer.box_, data.test.inputs, explanation, k=k)).mean())
    k, turned = ks[-2], []
    for c in range(len(data.classes)):
        ablation = ablate(explainer.box_, data.test.inputs, explanation, k=k, target=c)
        turned.append(100 * float((ablation.kept[0].argmax(-1) == c).float().mean()))
    return {**done, f"classes@{k}": turned, f"class@{k}": float(np.mean(turned))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["mnist3", "fashion3", "mnist", "digits"])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/images.json"))
    options = parser.parse_args()
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()}, {threads} thread(s), no GPU"
    found = json.loads(options.out.read_text()) if options.out.exists() else {"cells": []}
    found |= {"command": f"python -m benchmarks.images --seeds {options.seeds}", "device": device, "torch": torch.__version__}
    done = {(c["data"], c["features"], c["method"], c["seed"]) for c in found["cells"]}
    for seed in range(options.seeds):
        for name, kind, how in CELLS:
            once = how == "integrated gradients" or name in ("mnist", "digits")
            if name not in options.sets or kind not in options.kinds or (name, kind, how, seed) in done or (once and seed):
                continue
            result = cell(name, kind, how, seed)
            found["cells"].append(result)
            write_text(options.out, json.dumps(found, indent=1) + "\n")
            Console().print(name, kind, how, seed, {k: round(v, 2) for k, v in result.items() if isinstance(v, float)})
    Console().print(table(found["cells"]))


def table(cells: list[dict[str, object]]) -> Table:
    """The mean over the seeds of the paper's three K."""
    made = Table("data", "features", "method", "seeds", "K", "faithfulness", "class-specific", "fit s")
    for key in dict.fromkeys((c["data"], c["features"], c["method"]) for c in cells):
        rows = [c for c in cells if (c["data"], c["features"], c["method"]) == key and "collapsed" not in c]
        ks = DIGIT_KS[key[1]] if key[0] == "digits" else KINDS[key[1]][1]
        means = [f"{np.mean([r[f'faithfulness@{k}'] for r in rows]):.2f}" for k in ks] if rows else []
        special = [v for r in rows for k, v in r.items() if k.startswith("class@")]
        fit = [r["fit_seconds"] for r in rows if "fit_seconds" in r]
        shown = " / ".join(map(str, ks)), " / ".join(means), f"{np.mean(special):.2f}" if special else ""
        made.add_row(*key, str(len(rows)), *shown, f"{np.mean(fit):.0f}" if fit else "")
    return made


if __name__ == "__main__":
    main()
