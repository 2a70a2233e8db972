"""How each method is set for each data set: the paper's tuned values where it has them, and small ones for a quick look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aimwise.explainers import AIM, METHODS, Explainer
from aimwise.explainers.l2x import L2X, TUNED_TAU
from aimwise.explainers.lime import PAPER_KERNEL_WIDTH, PAPER_SAMPLES, Lime
from aimwise.explainers.vibi import TUNED, VIBI
from aimwise.study.cells import Facts, settings_of
from aimwise.study.paper.boxes import IMAGES, TEXTS

VERSION = 1  # of what a cell measures: raised when its figures would come out otherwise
ALPHA = {"imdb": 1.8, "hatexplain": 0.1, "ag_news": 0.1, "mnist3": 0.5, "fashion3": 0.5}  # Table 6
BETA = {"ag_news": 1e-4}  # Table 6; 1e-3 for all others
EPOCHS = {"imdb": 8, "ag_news": 12, "hatexplain": 20}  # of the paper recipe; the best one is kept
BATCH = {"imdb": 50, "ag_news": 400, "hatexplain": 400}  # as in the released code
RELEASED_EPOCHS = 10
QUICK_ROWS = 2048  # of an epoch
SLOW = ("lime", "fi", "kernel_shap")  # explain `slow_rows` inputs only, with one seed
ONCE = ("ig", "occlusion", "lexicon")  # nothing in them is random


@dataclass(frozen=True)
class Scale:
    """How much of everything: the name that cells carry, seeds, inputs to explain, and those that slow methods explain."""

    name: str
    seeds: int
    rows: int
    slow_rows: int
    tuning_seeds: int
    encoder: str = "lsa"

    @property
    def quick(self) -> bool:
        """Whether this is a quick look."""
        return self.name == "quick"


FULL = Scale("full", seeds=5, rows=5000, slow_rows=500, tuning_seeds=3)
QUICK = Scale("quick", seeds=1, rows=100, slow_rows=10, tuning_seeds=1)


def aim_paper(data: str, scale: Scale, alpha: float | None = None) -> AIM:
    """The paper's recipe with its tuned coefficients."""
    found = ALPHA.get(data, 1.0) if alpha is None else alpha
    made = AIM.paper(alpha=found, beta=BETA.get(data, 1e-3), epochs=EPOCHS.get(data, 20))
    if data in TEXTS:
        made = replace(made, batch_size=50 if scale.quick else BATCH[data])
    return replace(made, epochs=5, most_rows=QUICK_ROWS) if scale.quick else made


def aim_released(data: str, scale: Scale) -> AIM:
    """What the authors' code does, with the paper's tuned coefficients."""
    made = AIM.released(alpha=ALPHA.get(data, 1.0), beta=BETA.get(data, 1e-3))
    if data in TEXTS:
        made = replace(made, epochs=RELEASED_EPOCHS, batch_size=50 if scale.quick else BATCH[data])
    return replace(made, epochs=5, most_rows=QUICK_ROWS) if scale.quick else made


def aim_default(data: str, scale: Scale) -> AIM:
    """The library's own recipe."""
    return replace(AIM(), epochs=5, most_queries=1 << 15) if scale.quick else AIM()


def l2x(data: str, scale: Scale, *, k: int = 10, tau: float | None = None) -> L2X:
    """L2X, trained for K features."""
    return L2X(k=k, tau=TUNED_TAU[data] if tau is None else tau, epochs=4 if scale.quick else 20)


def vibi(data: str, scale: Scale, *, k: int = 10, tau: float | None = None, beta: float | None = None) -> VIBI:
    """VIBI, trained for K features."""
    tuned = TUNED[data]
    return VIBI(
        k=k,
        tau=float(tuned["tau"]) if tau is None else tau,  # type: ignore[arg-type]
        beta=float(tuned["beta"]) if beta is None else beta,  # type: ignore[arg-type]
        approximator=str(tuned["approximator"]),
        epochs=3 if scale.quick else 20,
    )


def lime(data: str, scale: Scale, *, kernel_width: int | float | None = None, samples: int = PAPER_SAMPLES) -> Lime:
    """LIME by its own package."""
    width = PAPER_KERNEL_WIDTH.get(data) if kernel_width is None else kernel_width
    few = 500 if scale.quick and data in TEXTS else samples
    return Lime(samples=few, kernel_width=None if width is None else float(width))


def fi(scale: Scale, samples: int = 100) -> Explainer:
    """Functional information of every class."""
    return METHODS["fi"](samples=20 if scale.quick else samples)  # type: ignore[call-arg]


def plain(name: str, scale: Scale) -> Explainer:
    """A method that needs no tuning."""
    if name == "ig":
        return METHODS["ig"](steps=20 if scale.quick else 50)  # type: ignore[call-arg]
    if name == "kernel_shap":
        return METHODS["kernel_shap"](via="captum")  # type: ignore[call-arg]
    return METHODS[name]()


def cells_of(
    data: str, explainer: Explainer, scale: Scale, *, seeds: int | None = None, more: Mapping[str, object] | None = None
) -> tuple[Facts, ...]:
    """The cells of one method on one data set, one for each seed, but for the black box's weights."""
    kind = "text" if data in TEXTS else "image" if data in IMAGES else "table"
    slow, name = explainer.method in SLOW, explainer.method
    facts: Facts = {
        "kind": kind,
        "data": data,
        "scale": scale.name,
        "method": name,
        "settings": settings_of(explainer),
        "rows": scale.slow_rows if slow else scale.rows,
        "version": VERSION,
        **(more or {}),
    }
    if kind == "text":
        facts["encoder"] = scale.encoder
    count = 1 if slow or name in ONCE else (seeds or scale.seeds)
    return tuple({**facts, "seed": seed} for seed in range(count))
