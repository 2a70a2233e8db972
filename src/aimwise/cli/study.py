"""`aimwise study`: ask people whether the key features are enough, as the paper did, and see what came out."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimwise.cli.options import MODELS, add_data, add_model, command, natural, page, positive

if TYPE_CHECKING:
    from aimwise.cli.desk import Desk
    from aimwise.explainers.base import Explainer
    from aimwise.human.build import Saved
    from aimwise.human.store import Store
    from aimwise.io.inputs import Rows

VARIABLE = "AIMWISE_STUDY_DATABASE"
SAVED = (".json", ".parquet")
POOL = 5000  # texts that the simulated reader may learn from
WHOLE = 1 << 40
STEPS = """examples:
  aimwise study new sentiment.toml --explainers aim=news-aim,l2x=news-l2x,lime=news-lime --model mypkg.models:clf \\
      --data test.parquet --items 50 --top 10
  aimwise study serve sentiment.toml
  aimwise study results sentiment.toml --html results.html
  aimwise study export sentiment.toml --out answers.csv
  aimwise study forget sentiment.toml 3f9c02ab"""
NEW = """  aimwise study new sentiment.toml --explainers aim=news-aim,l2x=news-l2x,lime=news-lime --model mypkg.models:clf \\
      --data test.parquet --items 50 --top 10
  aimwise study new sentiment.toml --explainers aim=why-aim.parquet,lime=why-lime.parquet --data test.parquet --label y"""
SERVE = """  aimwise study serve sentiment.toml
  aimwise study serve sentiment.toml --host 0.0.0.0 --port 8080
  aimwise study serve sentiment.toml --name study.example.org          behind a proxy that speaks HTTPS
  AIMWISE_STUDY_DATABASE=postgresql://user:password@host/name aimwise study serve sentiment.toml"""
SHOW = """  aimwise study results sentiment.toml
  aimwise study results sentiment.toml --html results.html --plot results.png --csv answers.csv
  aimwise study results sentiment.toml --json"""


def add(commands: Any) -> None:
    """Add `study` and its own commands to a parser's commands."""
    made = commands.add_parser(
        "study",
        help="ask people whether key features are enough to tell the class",
        description="The paper's human evaluation with your own people: they see the key features of an input, one section for\n"
        "each method, and say which class it is.",
        epilog=STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = made.add_subparsers(dest="study_command", required=True, metavar="new | serve | results | export | forget")
    add_new(inner)
    served = command(
        inner,
        "serve",
        help="serve the page that participants see",
        description="Serves the page that participants see, until Ctrl-C. An answer that the page calls saved is on disk.\n"
        "Private links are secrets: let people outside your network reach it through a proxy that speaks HTTPS.",
        examples=SERVE,
    )
    add_file(served)
    served.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (%(default)s: this machine alone)"
    )
    served.add_argument("--port", type=natural, default=8000, metavar="N", help="%(default)s; 0 takes a free one")
    served.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="a name that it also goes by, as behind a proxy; may be repeated",
    )
    served.set_defaults(run=serve)
    told = command(
        inner,
        "results",
        help="accuracy, neutral answers, agreement and tests between methods",
        description="Prints human accuracy and the share of neutral answers of every method with 95 % intervals, the agreement\n"
        "of participants, tests between methods, and the paper's figures beside.",
        examples=SHOW,
    )
    add_file(told)
    told.add_argument("--html", type=page, metavar="FILE", help="also write a page")
    told.add_argument("--plot", type=Path, metavar="FILE", help="also write a plot: .png, .svg or .pdf")
    told.add_argument("--csv", type=Path, metavar="FILE", help="also write every answer")
    told.add_argument("--finished", action="store_true", help="only participants who answered everything")
    told.set_defaults(run=results)
    written = command(
        inner,
        "export",
        help="write every answer to a CSV file",
        description="Writes a line for every answer: who, where in their order, which method and item, what, how long it took.",
        examples="  aimwise study export sentiment.toml --out answers.csv",
    )
    add_file(written)
    written.add_argument("--out", type=Path, metavar="FILE", help="where to write (standard output)")
    written.set_defaults(run=export)
    gone = command(
        inner,
        "forget",
        help="delete one participant and their answers",
        description="Deletes a participant and all their answers. Their private link stops working.",
        examples="  aimwise study forget sentiment.toml 3f9c02ab",
    )
    add_file(gone)
    gone.add_argument("participant", metavar="PARTICIPANT", help="the code that their page shows and `export` writes")
    gone.set_defaults(run=forget)


def add_new(inner: Any) -> None:
    """The command that makes a study."""
    made = command(
        inner,
        "new",
        help="make a study from explainers or files of explanations",
        description="Explains some inputs by every method and writes a TOML file, to be edited as you like, and a JSON file\n"
        "with what is shown. Only inputs that the black box got right are taken, as in the paper.",
        examples=NEW,
        more=MODELS,
    )
    made.add_argument("file", type=Path, metavar="FILE.toml", help="where to write the study")
    made.add_argument(
        "--explainers",
        type=named,
        required=True,
        metavar="A=PLACE,B=PLACE",
        help="methods: folders that `aimwise fit` or save() wrote, or files that `aimwise explain` (.parquet) or to_json wrote",
    )
    made.add_argument("--items", type=positive, default=50, metavar="N", help="how many inputs (%(default)s)")
    made.add_argument("--top", type=positive, default=10, metavar="K", help="how many features are shown of each (%(default)s)")
    made.add_argument("--any", action="store_true", help="also inputs that the black box got wrong")
    made.add_argument("--once", action="store_true", help="each participant sees an input in one section only")
    made.add_argument("--title", help="what participants see at the top")
    made.add_argument("--seed", type=natural, default=0, help="of the inputs and of every participant's order (%(default)s)")
    made.add_argument("--force", action="store_true", help="replace a study that is there")
    add_model(made, required=False)
    add_data(made, required=False)
    made.set_defaults(run=new)


def add_file(made: argparse.ArgumentParser) -> None:
    """Which study, and where its answers are."""
    made.add_argument("file", type=Path, metavar="FILE.toml", help="what `aimwise study new` wrote")
    made.add_argument(
        "--database",
        metavar="URL",
        help=f"sqlite:///FILE or postgresql://... (${VARIABLE}, else an SQLite file beside the study)",
    )


def named(text: str) -> dict[str, Path]:
    """Methods and where their explanations come from."""
    found: dict[str, Path] = {}
    for part in text.split(","):
        name, equals, place = (piece.strip() for piece in part.partition("="))
        if not (name and equals and place):
            raise argparse.ArgumentTypeError(f"got {part!r}, wanted NAME=FOLDER, as in aim=news-aim,lime=news-lime")
        if name in found:
            raise argparse.ArgumentTypeError(f"got the method {name!r} twice, wanted a name of its own for each")
        found[name] = Path(place)
    return found


def new(options: argparse.Namespace) -> int:
    """Explain and write."""
    from aimwise.cli.desk import Desk, count
    from aimwise.errors import BadSetting
    from aimwise.human.build import Saved, Wish, built
    from aimwise.io.parts import check_folder

    desk = Desk(options)
    if options.file.suffix != ".toml":
        raise BadSetting(f"Got {options.file}, wanted a name that ends in .toml.")
    if options.file.exists() and not options.force:
        raise BadSetting(f"{options.file} is there already, and answers may belong to it. Choose another name, or pass --force.")
    check_folder(options.file)
    files = {name: Saved.opened(place) for name, place in options.explainers.items() if place.suffix in SAVED}
    folders = {name: place for name, place in options.explainers.items() if name not in files}
    title = options.title or options.file.stem.replace("_", " ").replace("-", " ").capitalize()
    wish = Wish(options.file, options.items, options.top, options.seed, options.any, options.once, title)
    explainers, rows = read(options, desk, folders, files)
    survey = built(wish, explainers, files, rows, order=list(options.explainers), note=desk.note)
    survey.save()
    lines = [
        f"study: {survey.path} ({count(len(survey.items), 'item')}, methods {', '.join(survey.methods)})",
        f"items: {survey.items_path}",
        f"Word the title, the question and the consent in {survey.path} as you like; then: aimwise study serve {survey.path}",
    ]
    facts = {"study": str(survey.path), "items": len(survey.items), "methods": list(survey.methods), "kind": survey.kind}
    return desk.end(0, lines, facts | {"rows": [item.row for item in survey.items], "minutes": survey.minutes})


def read(
    options: argparse.Namespace, desk: Desk, folders: Mapping[str, Path], files: Mapping[str, Saved]
) -> tuple[dict[str, Explainer], Rows | None]:
    """The explainers of some folders, and the rows to explain; files of explanations need rows for their labels alone."""
    from aimwise.cli.work import Work, model_of, opened_source, prepared
    from aimwise.errors import BadSetting
    from aimwise.io.inputs import Form
    from aimwise.io.roles import Given, Hints, roles_of
    from aimwise.matched import saved

    if not folders:
        if not options.data:
            return {}, None
        source = opened_source(options, options.data)
        given = Given(options.text_column, options.columns, options.ids_column, options.key, options.label)
        return {}, sampled_rows(options, source, roles_of(source, given, Hints()), Form(pictures="pil"), bool(files))
    for name in ("model", "data"):
        if not getattr(options, name):
            raise BadSetting(f"The explainers in folders need --{name}: they are asked about the rows, and ask the model.")
    box, explainers, work = model_of(options), {}, None
    for name, folder in folders.items():
        own = argparse.Namespace(**{**vars(options), "explainer": folder})
        fitted = saved(folder, box)
        explainers[name] = fitted.explainer
        work = work or prepared(own, box, desk, fitted)
    assert isinstance(work, Work)
    return explainers, sampled_rows(options, work.source, work.roles, work.form, bool(files))


def sampled_rows(options: argparse.Namespace, source: Any, roles: Any, form: Any, whole: bool) -> Rows:
    """Rows enough to choose the items from, and of texts some more for the simulated reader; all where files name them."""
    from aimwise.io.sample import sample_rows
    from aimwise.progress import bar

    most = WHOLE if whole else 4 * options.items + (POOL if roles.kind == "text" else 0)
    with bar(source.total or 0, "read") as shown:
        return sample_rows(source, roles, form, most=most, seed=options.seed, shown=shown)[0]


def opened(options: argparse.Namespace) -> Store:
    """The study of a file with its answers."""
    import os

    from aimwise.errors import extra
    from aimwise.human.survey import read_survey

    extra("sqlalchemy", "web")
    from aimwise.human.store import Store

    return Store(read_survey(options.file), options.database or os.environ.get(VARIABLE))


def serve(options: argparse.Namespace) -> int:
    """Serve until told to stop."""
    import sys

    from aimwise.cli.desk import Desk
    from aimwise.errors import extra

    desk = Desk(options)
    for package in ("fastapi", "uvicorn"):
        extra(package, "web")
    from aimwise.human.service import guarded
    from aimwise.web.common import LOOPBACK_HOSTS, address, is_loopback, listen, run

    store = opened(options)
    listening = listen(options.host, options.port)
    names = LOOPBACK_HOSTS | {name.lower() for name in options.name} if is_loopback(options.host) else None
    app = guarded(store.survey, store, hosts=names)
    where = address(listening)

    def ready() -> None:
        desk.note(f"answers go to {store.engine.url.render_as_string(hide_password=True)}")
        sys.stdout.write(f"{store.survey.title}: {where} (Ctrl-C ends it)\n")
        sys.stdout.flush()

    try:
        run(app, listening, ready=ready)
    finally:
        store.close()
    return 0


def results(options: argparse.Namespace) -> int:
    """Print and write what came out."""
    from aimwise.cli.desk import Desk
    from aimwise.errors import BadSetting
    from aimwise.files import write_text
    from aimwise.human import told
    from aimwise.human.export import as_csv
    from aimwise.human.results import results as figures

    desk = Desk(options)
    if options.plot is not None and options.plot.suffix not in (".png", ".svg", ".pdf"):
        raise BadSetting(f"Got --plot {options.plot}, wanted a name that ends in .png, .svg or .pdf.")
    store = opened(options)
    answers = store.answers()
    made = figures(store.survey, answers, started=len(store.everyone()), finished_only=options.finished)
    if options.html is not None:
        write_text(options.html, told.page(made))
    if options.plot is not None:
        told.plot(made).savefig(options.plot, dpi=160)
    if options.csv is not None:
        write_text(options.csv, as_csv(store.survey, answers))
    store.close()
    files = {name: getattr(options, name) for name in ("html", "plot", "csv") if getattr(options, name) is not None}
    lines = [f"{name}: {place}" for name, place in files.items()]
    return desk.end(0, lines, made.config() | {name: str(place) for name, place in files.items()}, shown=told.tables(made))


def export(options: argparse.Namespace) -> int:
    """Write every answer."""
    import sys

    from aimwise.cli.desk import Desk, count
    from aimwise.files import write_text
    from aimwise.human.export import as_csv

    desk = Desk(options)
    store = opened(options)
    answers: Sequence[Mapping[str, Any]] = store.answers()
    text = as_csv(store.survey, answers)
    store.close()
    if options.out is None and not desk.json:
        sys.stdout.write(text)
        return 0
    if options.out is not None:
        write_text(options.out, text)
    facts = {"answers": len(answers), "out": None if options.out is None else str(options.out)}
    return desk.end(0, [f"{count(len(answers), 'answer')}: {options.out}"], facts)


def forget(options: argparse.Namespace) -> int:
    """Delete one participant's answers."""
    from aimwise.cli.desk import Desk, count

    desk = Desk(options)
    store = opened(options)
    gone = store.forget(options.participant)
    store.close()
    said = (
        f"deleted participant {options.participant} and {count(gone, 'answer')}; files that were exported before still hold them"
    )
    return desk.end(0, [said], {"participant": options.participant, "deleted": gone})
