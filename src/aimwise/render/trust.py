"""What made the explanations of a page, and how far they can be trusted, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import torch

from aimwise.explanation import About, Explanation, Training
from aimwise.render.say import percent
from aimwise.render.views import kind

LOW = 0.1  # the rows with the lowest agreement are so large a share of all
ENOUGH = 0.5  # of what no weights leave open, explained
MARKS = {"good": "✓", "fair": "!", "bad": "✗", "none": "–"}
SAID = {"good": "good", "fair": "with care", "bad": "bad", "none": "not known"}
FILLS = {
    "background": "takes the value of a random training row",
    "mean": "is set to the mean",
    "median": "is set to the median",
    "noise": "becomes noise",
    "constant": "is set to a constant",
    "zero": "is set to zero",
    "blur": "is blurred",
    "delete": "is deleted, and the text closes up",
    "replace": "is replaced by a fixed word",
    "mask": "becomes the model's mask token",
    "pad": "becomes padding",
}
DRAWN = ("background", "noise")  # fills that draw
NAMED = {"table": "feature", "text": "word", "image": "region"}
STOPPED = {
    "epochs": "all epochs were done",
    "patience": "no epoch was better for a while",
    "interrupted": "it was interrupted",
    "queries": "the questions it might ask were used up",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was measured: how it is to be taken, a name, what it says, and a bar for it."""

    mark: str
    name: str
    said: str
    share: float | None = None
    without: float | None = None


def panel(explanation: Explanation) -> str:
    """The part of a page that says how the explanations were made and how far to trust them."""
    body = "".join(item(each) for each in findings(explanation))
    about = "" if explanation.about is None else made(explanation.about)
    return (
        '<details class="trust" open><summary><h3>How far to trust this</h3></summary>'
        f'<ul class="findings" role="list">{body}</ul>{tried(explanation)}{about}</details>'
    )


def findings(explanation: Explanation) -> list[Finding]:
    """All that was measured."""
    out = []
    if explanation.check is not None and len(explanation):
        out.append(checked(explanation))
    training = None if explanation.about is None else explanation.about.training
    if training is not None and training.history:
        out += trained(training)
    if explanation.trials and len(explanation):
        out.append(kept(explanation))
    if not out:
        out.append(
            Finding(
                "none", "Nothing was measured", "Ask for it: explain(..., check=32) compares weights and model on random masks."
            )
        )
    return out


def checked(explanation: Explanation) -> Finding:
    """The agreement on masks of these rows."""
    check = explanation.check
    assert check is not None
    a, w = float(check.agreement.mean()), float(check.without.mean())
    said = (
        f"On {check.masks:,} random masks of each row, the weights alone give probabilities that overlap with the black box's by "
        f"{percent(a)}, no weights by {percent(w)}. {verdict(a, w)}"
    )
    if len(check.agreement) >= 1 / LOW:
        low = float(torch.quantile(check.agreement.double(), LOW))
        said += f" One row in ten has {low:.2f} or less: sort by it."
    return Finding(mark(a, w), f"Agreement in these rows {a:.2f}", said, a, w)


def trained(training: Training) -> list[Finding]:
    """What the training measured on rows that it did not learn from."""
    best = training.history[min(max(training.best, 0), len(training.history) - 1)]
    a, w, follows = best.get("agreement", math.nan), best.get("without"), best.get("tracking")
    name, where = f"Agreement in training {a:.2f}", "On masks of rows that were held back from training"
    said = f"{where}, the epoch that was kept agrees with the black box by {a:.2f}."
    if w is not None:
        said = f"{where}, weights and black box overlap by {percent(a)}, no weights by {percent(w)}. {verdict(a, w)}"
    out = [Finding(mark(a, w), name, said, a, w)]
    if follows is not None:
        differ = best.get("variation")
        unlike = "" if differ is None else f" They differ between features by up to {differ:.2f}."
        said = f"Where the black box's answer moves, the weights move with it: a correlation of {follows:.2f}.{unlike}"
        out.append(Finding("good" if follows >= ENOUGH else "fair", "It has not collapsed", said))
    if training.stopped in ("interrupted", "queries"):
        said = f"The training ended early: {STOPPED[training.stopped]}. More would have made it better."
        out.append(Finding("fair", "Ended early", said))
    return out


def kept(explanation: Explanation) -> Finding:
    """How often the top features alone keep the prediction."""
    trial = explanation.trials[-1]
    alone, rest = (float((said.argmax(-1) == explanation.prediction).float().mean()) for said in (trial.kept, trial.rest))
    named = NAMED[kind(explanation)]
    what = named if trial.k == 1 else f"{trial.k:,} {named}s"
    drawn = explanation.about is not None and explanation.about.fill in DRAWN
    said = (
        f"The {what} that speak{'s' * (trial.k == 1)} most for the prediction keep{'s' * (trial.k == 1)} it alone in "
        f"{percent(alone)} of the rows. What is left without keeps it in {percent(rest)}."
        f"{' Answers are means over several draws of the fill.' * drawn}"
    )
    return Finding("good" if alone >= 0.9 else "fair" if alone > rest else "bad", f"The top {trial.k:,} alone", said, alone)


def tried(explanation: Explanation) -> str:
    """Where several numbers of features were tried: how often each keeps the prediction."""
    if len(explanation.trials) < 2 or not len(explanation):
        return ""
    heads = "".join(f'<th scope="col" class="number">{trial.k:,}</th>' for trial in explanation.trials)
    lines = ""
    for name, what in (("only them", "kept"), ("without them", "rest")):
        same = [float((getattr(t, what).argmax(-1) == explanation.prediction).float().mean()) for t in explanation.trials]
        lines += f'<tr><th scope="row">{name}</th>{"".join(f"""<td class="number">{percent(p)}</td>""" for p in same)}</tr>'
    return (
        '<div class="results" role="region" tabindex="0" aria-label="Predictions kept"><table>'
        "<caption>In how many rows the prediction stays, by the number of top features</caption>"
        f'<thead><tr><th scope="col">top features</th>{heads}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def made(about: About) -> str:
    """The explainer, its settings and what it cost."""
    each = about.queries / about.explained if about.explained else 0.0
    told = [
        ("Explainer", about.explainer),
        ("Black box", about.blackbox),
        ("Features", about.features),
        ("What is taken away", f"{FILLS.get(about.fill, 'is filled')} (fill={about.fill!r})"),
        (
            "Fitted",
            f"{'' if about.rows is None else f'on {about.rows:,} inputs, '}in {seconds(about.fit_seconds)}, seed {about.seed}",
        ),
        ("Questions to fit", f"{about.fit_queries:,}"),
        ("Questions to explain", f"{about.queries:,} for {about.explained:,} inputs, {each:,.1f} each"),
    ]
    if about.training is not None and about.training.history:
        best, done = about.training.best + 1, len(about.training.history)
        ended = STOPPED.get(about.training.stopped, about.training.stopped)
        told.append(("Training", f"epoch {best} of {done} was kept; {ended}"))
    items = "".join(f'<div><dt>{name}</dt><dd dir="auto">{escape(said)}</dd></div>' for name, said in told)
    curve = "" if about.training is None else history(about.training)
    return f'<div class="made"><h4>How it was made</h4><dl>{items}</dl>{curve}</div>'


def history(training: Training) -> str:
    """The agreement of every epoch as a small line."""
    values = [epoch.get("agreement", math.nan) for epoch in training.history]
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return ""
    low, high = min(values), max(values)
    room = high - low or 1.0
    places = [(8 + 304 * i / (len(values) - 1), 58 - 46 * (v - low) / room) for i, v in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[min(max(training.best, 0), len(places) - 1)]
    said = f"Agreement on held-out rows in each of {len(values)} epochs: from {values[0]:.2f} to {high:.2f} at best"
    return (
        f'<figure class="curve"><svg viewBox="0 0 320 66" role="img" aria-label="{said}"><polyline points="{line}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/></svg>'
        f"<figcaption>Agreement on held-out rows by epoch, {low:.3f} to {high:.3f}; the dot is the epoch that was kept."
        "</figcaption></figure>"
    )


def item(finding: Finding) -> str:
    """One finding with its mark and its bar."""
    bar = ""
    if finding.share is not None and math.isfinite(finding.share):
        tick = "" if finding.without is None else f'<b style="left:{100 * finding.without:.1f}%" title="with no weights"></b>'
        bar = f'<span class="track" aria-hidden="true"><i class="share" style="--w:{100 * finding.share:.1f}%"></i>{tick}</span>'
    return (
        f'<li class="{finding.mark}"><b class="mark" role="img" aria-label="{SAID[finding.mark]}">{MARKS[finding.mark]}</b>'
        f"<div><strong>{escape(finding.name)}</strong>{bar}<p>{escape(finding.said)}</p></div></li>"
    )


def explained(agreement: float, without: float | None) -> float:
    """The share of what no weights leave open that the weights explain."""
    if without is None or not math.isfinite(agreement) or without >= 1:
        return math.nan
    return (agreement - without) / (1 - without)


def mark(agreement: float, without: float | None) -> str:
    """How an agreement is to be taken."""
    share = explained(agreement, without)
    if math.isnan(share):
        return "none"
    return "bad" if share <= 0 else "fair" if share < ENOUGH else "good"


def verdict(agreement: float, without: float) -> str:
    """What an agreement means for the reader."""
    share = explained(agreement, without)
    if math.isnan(share):
        return ""
    if share <= 0:
        return "That is no better than no weights at all: do not trust them."
    if share < ENOUGH:
        return f"So they explain {percent(share)} of what is to be explained: look at each row's agreement first."
    return f"So they explain {percent(share)} of what is to be explained."


def seconds(count: float) -> str:
    """A time as people say it."""
    if count < 10:
        return f"{count:.1f} s"
    return f"{count:.0f} s" if count < 120 else f"{count / 60:.0f} min"
