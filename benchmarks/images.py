"""The paper's image tables: AIM beside captum's integrated gradients on the same network, which is trained once and kept.

    python -m benchmarks.images [--sets mnist3 fashion3 mnist digits] [--features patches pixels]
                                [--methods default paper random "integrated gradients"] [--seeds 5] [--jobs 4]
                                [--out results/images.json]

Every cell (data set, features, method, seed) is written to the file when it is done; the same command goes on with those that are
missing. Faithfulness is the share of test images whose prediction the K features that speak most for it keep, the others set to
zero as in the paper. Class-specific: the share of test images that the K features that speak most for a class turn to it.
Integrated gradients: captum's own, baseline zero, 50 steps, summed over a patch.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import aimwise
from aimwise.data import Dataset, load, zoo
from aimwise.errors import Collapsed
from aimwise.explanation import Explanation
from aimwise.files import sha256
from aimwise.metrics import ablate
from aimwise.metrics.faithfulness import faithfulness
from aimwise.study.cells import Facts, mean_of
from aimwise.study.machine import module_command
from aimwise.study.run import Study, refuse_failures
from aimwise.study.store import OneFile

FILL = "zero"
SETS = ("mnist3", "fashion3", "mnist", "digits")
SIDES = {"digits": 2}  # of patches; 7 for 28 x 28
KS = {"patches": (1, 2, 3, 5, 8, 10), "pixels": (50, 100, 200, 300, 400)}
DIGIT_KS = {"patches": (3, 5, 8), "pixels": (5, 10, 20)}
METHODS = ("default", "paper", "random", "integrated gradients")


def counts(data: str, features: str) -> tuple[int, ...]:
    """The K that are tried; the last but one for single classes."""
    return DIGIT_KS[features] if data == "digits" else KS[features]


def explainer_for(method: str) -> aimwise.Explainer:
    if method == "paper":
        return aimwise.AIM.paper(alpha=0.5)  # the paper's alpha for images
    if method == "default":
        return aimwise.AIM()
    return aimwise.Random()


def integrated_gradients(module: torch.nn.Module, data: Dataset, like: Explanation) -> Explanation:
    """Captum's integrated gradients of every class, summed over each feature."""
    from captum.attr import IntegratedGradients

    attribute = IntegratedGradients(module).attribute
    weights, place = torch.zeros_like(like.weights), next(module.parameters()).device
    regions = torch.from_numpy(like.regions[0]).flatten()
    for start in range(0, len(like), 64):
        x = torch.from_numpy(data.test.inputs[start : start + 64]).float().to(place).requires_grad_()
        for c in range(len(like.classes)):
            found = attribute(x, baselines=0.0, target=c, n_steps=50, internal_batch_size=3200).float()
            weights[start : start + 64, :, c].index_add_(1, regions, found.detach().cpu().flatten(1))
    return replace(like, weights=weights, method="integrated gradients")


def cell(facts: Facts) -> Facts:
    """One method on one data set with one seed, and its figures on the test part."""
    data, features, method, seed = facts["data"], facts["features"], facts["method"], facts["seed"]
    torch.set_num_threads(1)
    found, kept = load(data), zoo.kept(data)
    box = aimwise.TorchBox(kept.network.module, output="logits", class_names=found.classes)
    explainer = explainer_for(method)
    done: Facts = {"settings": repr(explainer), "box_accuracy": kept.network.test_accuracy, "fill": FILL}
    done["box_sha256"] = sha256(kept.path / "weights.safetensors")
    kind = aimwise.Pixels(fill=FILL) if features == "pixels" else aimwise.Patches(SIDES.get(data, 7), fill=FILL)
    try:
        explainer.fit(box, found.train.inputs, features=kind, seed=seed)
    except Collapsed as e:
        return {**done, "collapsed": str(e)}
    started = time.perf_counter()
    explanation = explainer.explain(found.test.inputs)
    if method == "integrated gradients":
        explanation = integrated_gradients(kept.network.module, found, explanation)
    done |= {"explain_seconds": time.perf_counter() - started, "images": len(explanation)}
    if isinstance(explainer, aimwise.AIM):
        done |= {"fit_seconds": explainer.fit_seconds_, "queries": explainer.queries_, "epochs": len(explainer.history_)}
    ks = counts(data, features)
    for k in ks:
        ablation = ablate(explainer.box_, found.test.inputs, explanation, k=k)
        done[f"faithfulness@{k}"] = 100 * float(faithfulness(ablation).mean())
    turned = []
    for c in range(len(found.classes)):
        ablation = ablate(explainer.box_, found.test.inputs, explanation, k=ks[-2], target=c)
        turned.append(100 * float((ablation.kept[0].argmax(-1) == c).float().mean()))
    return {**done, "class_k": ks[-2], "classes": turned, "class": sum(turned) / len(turned)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--features", nargs="+", choices=list(KS), default=list(KS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("results/images.json"))
    options = parser.parse_args()
    store = OneFile(options.out)
    study = Study(store, "benchmarks.images:cell", module_command("benchmarks.images"))
    for name in options.sets:
        zoo.kept(name)
    wanted = [
        {"data": name, "features": features, "method": method, "seed": seed}
        for method in options.methods
        for features in options.features
        for name in options.sets
        for seed in range(1 if method == "integrated gradients" else options.seeds)
    ]
    refuse_failures(study.run(wanted, jobs=options.jobs, say=Console().out))
    Console().print(table(store))


def table(cells: OneFile) -> Table:
    """The mean over the seeds of every method on every data set."""
    made = Table("data", "features", "method", "seeds", "K", "faithfulness", "class-specific", "fit s")
    for data, features, method in dict.fromkeys((c["data"], c["features"], c["method"]) for c in cells.records()):
        rows, ks = cells.find({"data": data, "features": features, "method": method}), counts(data, features)
        lost = sum("collapsed" in row for row in rows)
        seeds = str(len(rows)) + (f" ({lost} collapsed)" if lost else "")
        means = " / ".join(mean_of(rows, f"faithfulness@{k}") for k in ks)
        made.add_row(
            data, features, method, seeds, " / ".join(map(str, ks)), means, mean_of(rows, "class"), mean_of(rows, "fit_seconds")
        )
    return made


if __name__ == "__main__":
    main()
