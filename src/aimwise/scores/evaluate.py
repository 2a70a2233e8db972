"""Score methods on the same inputs: one set of questions to the black box for each explanation, read by every metric."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from aimwise.batch import Batch
from aimwise.data.lexicon import stop_words, wordnet
from aimwise.errors import BadSetting, unknown
from aimwise.explainers import METHODS
from aimwise.explainers.base import Explainer
from aimwise.explanation import Explanation
from aimwise.masked import Masked
from aimwise.metrics import METRICS, Ablation, Better, ablations
from aimwise.metrics.ablation import both_orders
from aimwise.metrics.agreement import alike, pairwise_iou
from aimwise.metrics.curves import aopc_comprehensiveness, aopc_sufficiency, deletion, insertion, naopc
from aimwise.metrics.faithfulness import class_faithfulness
from aimwise.metrics.leakage import Predictor, encoding_gain, eval_x, judged
from aimwise.metrics.stability import Encoder, neighbours, sensitivity, shared_words
from aimwise.metrics.words import Related, as_released, chosen_words, cluster_counts, empty_share
from aimwise.progress import bar
from aimwise.scores.table import Bootstrap, Score, Scores

CONTROLS = ("random", "lexicon")
CURVES: dict[str, tuple[Callable[[Sequence[Ablation]], Tensor], Better]] = {
    "aopc_comprehensiveness": (aopc_comprehensiveness, "higher"),
    "aopc_sufficiency": (aopc_sufficiency, "lower"),
}


@dataclass(frozen=True, eq=False)
class Case:
    """One method's explanation of the inputs, and all that a metric may need beside it."""

    explainer: Explainer | None
    explanation: Explanation
    inputs: Any
    batch: Batch
    box: Masked
    ks: tuple[int, ...]
    seed: int
    stop_words: Collection[str]
    related: Related | None
    near: Sequence[Sequence[int]] | None
    judge: Predictor | None

    @cached_property
    def words(self) -> list[list[str]]:
        """The strongest words of every text, as many as the largest K."""
        return list(chosen_words(self.explanation, max(self.ks)))

    def first(self, k: int) -> Iterator[list[str]]:
        """The k strongest words of every text."""
        return (words[:k] for words in self.words)

    def relations(self, *, released: bool = False) -> Related:
        """Which words belong together, or as the authors' code has it."""
        found: Related = needed(self.related, "related words")
        return as_released(found) if released else found


@dataclass(frozen=True)
class Extra:
    """A metric that asks its own questions, or none: how it is measured, for each K or once, which way is better, its unit."""

    measure: Callable[[Case, int], Tensor]
    better: Better
    unit: str
    per_k: bool = True


def of_all_classes(case: Case, k: int) -> Tensor:
    """Class-specific faithfulness, the mean over the classes."""
    found = []
    for c in range(len(case.explanation.classes)):
        order = case.explanation.order(c)
        made = ablations(
            case.box, case.batch, case.explanation, ks=(k,), target=c, seed=case.seed, orders=(order, order)
        )  # what is left without them is not looked at
        found.append(class_faithfulness(made[0]))
    return torch.stack(found).mean(0)


def curve(measure: Callable[..., Tensor], label: bool) -> Callable[[Case, int], Tensor]:
    """An area of insertion or deletion, of probabilities or of labels."""
    return lambda case, k: measure(case.box, case.batch, case.explanation, label=label, seed=case.seed)


def of_changes(output: bool) -> Callable[[Case, int], Tensor]:
    """How far small changes of the inputs carry."""

    def measure(case: Case, k: int) -> Tensor:
        if case.explainer is None:
            raise BadSetting("Sensitivity explains changed inputs: hand over the explainer, not an explanation it made.")
        return sensitivity(case.explainer.explain, case.inputs, output=output, seed=case.seed)

    return measure


def needed(thing: Any, what: str) -> Any:
    """Something a metric cannot do without, or an error that says which."""
    if thing is None:
        raise BadSetting(f"This metric needs {what}. Pass it to evaluate.")
    return thing


EXTRAS: dict[str, Extra] = {
    "class_faithfulness": Extra(of_all_classes, "higher", "share"),
    "pairwise_iou": Extra(lambda case, k: pairwise_iou(case.explanation, k=k), "lower", "share"),
    "purity": Extra(lambda case, k: empty_share(case.first(k), case.stop_words), "lower", "share"),
    "purity_distinct": Extra(lambda case, k: empty_share(case.first(k), case.stop_words, distinct=True), "lower", "share"),
    "brevity": Extra(lambda case, k: cluster_counts(case.first(k), case.relations()), "lower", "clusters"),
    "brevity_released": Extra(lambda case, k: cluster_counts(case.first(k), case.relations(released=True)), "lower", "clusters"),
    "iou": Extra(
        lambda case, k: shared_words(
            case.first(k), needed(case.near, "encoder=..., texts -> vectors, or near=..."), case.stop_words
        ),
        "higher",
        "share",
    ),
    "eval_x": Extra(
        lambda case, k: judged(
            needed(case.judge, "judge=..., or train=... to train one on"), case.box, case.batch, case.explanation, k=k
        ),
        "higher",
        "share",
    ),
    "encoding": Extra(lambda case, k: encoding_gain(case.explanation, k=k, seed=case.seed), "lower", "share"),
    "insertion": Extra(curve(insertion, False), "higher", "area", per_k=False),
    "insertion_label": Extra(curve(insertion, True), "higher", "area", per_k=False),
    "deletion": Extra(curve(deletion, False), "lower", "area", per_k=False),
    "deletion_label": Extra(curve(deletion, True), "lower", "area", per_k=False),
    "naopc": Extra(
        lambda case, k: naopc(case.box, case.batch, case.explanation, ks=case.ks, seed=case.seed), "higher", "share", per_k=False
    ),
    "input_sensitivity": Extra(of_changes(False), "lower", "ratio", per_k=False),
    "output_sensitivity": Extra(of_changes(True), "lower", "ratio", per_k=False),
}


def evaluate(
    explainers: Mapping[str, Explainer | Explanation],
    inputs: Any,
    *,
    k: int | Sequence[int] = (1, 3, 5, 10),
    metrics: Sequence[str] | None = None,
    fills: Sequence[str] | None = None,
    box: Masked | None = None,
    controls: Sequence[str] = CONTROLS,
    control_rows: int = 500,
    encoder: Encoder | None = None,
    near: Sequence[Sequence[int]] | None = None,
    train: Any = None,
    judge: Predictor | None = None,
    seed: int = 0,
) -> Scores:
    """Score fitted explainers, or explanations of these inputs, with 95 % intervals over the inputs.

    metrics: by default all that read one set of questions to the black box (two for each input, K and fill), and for texts
    purity; any of `aimwise.scores.evaluate.known_metrics()` by name, some of which ask more.
    fills: what stands in for features that are taken away; by default the explainers' own and another.
    box: the black box behind explanations, `explainer.box_`, where no explainer is handed over.
    controls: the rows that show whether a method is better than nothing (random) and than one list for all inputs (lexicon, for
    texts and tables), on the first `control_rows` inputs.
    encoder: texts -> vectors, for the metric "iou"; or near: each text's neighbours, as `near_ones` finds them.
    train: inputs that the judge of "eval_x" is trained on; or judge: that judge.
    """
    names = wanted_metrics(metrics)
    ks = checked_ks(k)
    seen = box or next((one.box_ for one in explainers.values() if isinstance(one, Explainer)), None)
    if seen is None:
        raise BadSetting("Got explanations alone, wanted at least one fitted explainer, or box=explainer.box_ to ask.")
    batch = seen.features.encode(inputs).to(torch.device("cpu"))
    made, seconds = explained(explainers, inputs)
    first = next(iter(made.values()))
    for one in made.values():
        alike(first, one)
    if metrics is None:
        names += ["purity"] if first.names is None else []
    fills = list(seen.features.fills if fills is None else fills)
    listed = stop_words()
    related = wordnet().related if any(name.startswith("brevity") for name in names) else None
    if near is None and "iou" in names and encoder is not None:
        near = near_ones(first, encoder)
    if judge is None and "eval_x" in names and train is not None:
        judge = trained_judge(seen, train, seed)

    def case(explainer: Explainer | None, explanation: Explanation, rows: Tensor | None) -> Case:
        data = batch if rows is None else batch.pick(rows)
        about = None if rows is not None else near
        return Case(explainer, explanation, inputs, data, seen, ks, seed, listed, related, about, judge)

    rows: list[Score] = []
    cases = [case(one if isinstance(one, Explainer) else None, made[name], None) for name, one in explainers.items()]
    labels = list(explainers)
    few = torch.arange(min(control_rows, len(batch)))
    for name in controls if len(batch) > 1 else ():
        explanation = control(name, seen, inputs, batch, first, seed)
        if explanation is not None and name not in labels:
            cases.append(case(None, explanation[few], few))
            labels.append(name)
    resampled = Bootstrap(len(batch), seed=seed)
    some = Bootstrap(len(few), seed=seed)
    with bar(len(cases) * (len(names) + len(fills)), "evaluate") as shown:
        for label, here in zip(labels, cases, strict=True):
            mine = resampled if len(here.explanation) == len(batch) else some
            for metric, size, fill, values, better, unit in measured(here, names, fills, label not in explainers, shown):
                known = values[values.isfinite()]
                mean = float(known.mean()) if len(known) else float("nan")
                low, high = mine.interval(values)
                rows.append(Score(label, metric, size, fill, mean, low, high, len(known), better, unit, values))
    for name, given in explainers.items():
        times = {"explain_seconds": seconds.get(name), "fit_seconds": getattr(given, "fit_seconds_", None)}
        for metric, took in times.items():
            if took is not None:
                nan = float("nan")
                rows.append(Score(name, metric, None, None, took, nan, nan, len(batch), "lower", "seconds", torch.tensor([took])))
    note = f"{len(batch)} inputs; 95 % bootstrap intervals; * best"
    if any(name.startswith(("purity", "iou")) for name in names):
        note += f"; stop words: {listed.source}"
    return Scores(tuple(rows), note)


def measured(
    case: Case, names: Sequence[str], fills: Sequence[str], control: bool, shown: Any
) -> Iterator[tuple[str, int | None, str | None, Tensor, Better, str]]:
    """Every metric of a case: its name, K, fill, values, direction and unit. A control has those that need no explainer."""
    if any(name in METRICS or name in CURVES for name in names):
        orders = both_orders(case.explanation)
        for fill in fills:
            asked = ablations(case.box, case.batch, case.explanation, ks=case.ks, fill=fill, seed=case.seed, orders=orders)
            for name in names:
                if name in METRICS:
                    metric = METRICS[name]
                    for one in asked:
                        yield name, one.k, fill, metric.measure(one), metric.better, metric.unit
                elif name in CURVES:
                    yield name, None, fill, CURVES[name][0](asked), CURVES[name][1], "probability"
            shown.update(1)
    for name in names:
        shown.update(1)
        unfit = case.explanation.only is not None and name in ("class_faithfulness", "pairwise_iou")
        if name not in EXTRAS or unfit or (control and name in ("iou", "input_sensitivity", "output_sensitivity")):
            continue
        metric_ = EXTRAS[name]
        for size in case.ks if metric_.per_k else (max(case.ks),):
            values = metric_.measure(case, size)
            yield name, size if metric_.per_k else None, None, values, metric_.better, metric_.unit


def explained(explainers: Mapping[str, Explainer | Explanation], inputs: Any) -> tuple[dict[str, Explanation], dict[str, float]]:
    """The explanations of all methods, and how long each took; the black box's answers to the inputs are asked for once."""
    made: dict[str, Explanation] = {}
    seconds: dict[str, float] = {}
    probs = next((one.probs for one in explainers.values() if isinstance(one, Explanation)), None)
    for name, one in explainers.items():
        if isinstance(one, Explanation):
            made[name] = one
            continue
        started = time.perf_counter()
        made[name] = one.explain(inputs, probs=probs)
        seconds[name] = time.perf_counter() - started
        probs = made[name].probs
    return made, seconds


def control(name: str, box: Masked, inputs: Any, batch: Batch, like: Explanation, seed: int) -> Explanation | None:
    """A control's explanation of the inputs; None where it does not apply."""
    if name not in METHODS:
        raise unknown("control", name, CONTROLS)
    method = METHODS[name]()
    if box.features.kind not in method.kinds:
        return None
    names = None if box.blackbox.class_names is not None else like.classes
    method.fit(box.blackbox, inputs, features=box.features, class_names=names, probs=like.probs, seed=seed)
    return method.explain(inputs, probs=like.probs)


def trained_judge(box: Masked, train: Any, seed: int) -> Predictor:
    """EVAL-X's judge, trained on inputs of its own."""
    batch = box.features.encode(train).to(torch.device("cpu"))
    return eval_x(box, batch, box.whole(batch), seed=seed)


def near_ones(explanation: Explanation, encoder: Encoder) -> list[list[int]]:
    """Each text's neighbours of the same predicted class."""
    texts = explanation.sources
    if texts is None:
        texts = tuple(
            " ".join(map(str, row[there])) for row, there in zip(explanation.values, explanation.present.numpy(), strict=True)
        )
    return neighbours(texts, explanation.prediction, encoder=encoder)


def known_metrics() -> tuple[str, ...]:
    """The names of all metrics."""
    return (*METRICS, *CURVES, *EXTRAS)


def wanted_metrics(metrics: Sequence[str] | None) -> list[str]:
    """The metrics asked for, each known, or those that read one set of questions."""
    if metrics is None:
        return [*METRICS, *CURVES]
    if isinstance(metrics, str):
        raise BadSetting(f"metrics={metrics!r}, wanted a list of names: metrics=[{metrics!r}].")
    for name in metrics:
        if name not in known_metrics():
            raise unknown("metric", name, known_metrics())
    return list(metrics)


def checked_ks(k: int | Sequence[int]) -> tuple[int, ...]:
    """The numbers of features to keep, in order."""
    ks = (k,) if isinstance(k, int) else tuple(k)
    if not ks or any(isinstance(one, bool) or not isinstance(one, int) or one < 1 for one in ks):
        raise BadSetting(f"k={k!r}, wanted how many features to keep, one whole number or several: k=(1, 3, 5, 10).")
    return tuple(sorted(set(ks)))
