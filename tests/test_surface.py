"""The public names, what importing costs, and which way imports point."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import aimwise
from aimwise import errors

SOURCE = Path(aimwise.__file__).parent

PUBLIC = {
    "AIM", "BlackBox", "Check", "Columns", "Explainer", "Explanation", "Features", "FunctionBox", "HttpBox", "METHODS", "OnnxBox",
    "Patches", "Pixels", "Random", "Scores", "Segments", "SklearnBox", "TextBox", "Tokens", "TorchBox", "Words", "compare",
    "evaluate", "load",
}  # fmt: skip

LAYERS = [
    {"errors"},
    {"batch", "device", "files", "gates", "pairs", "progress"},
    {"processes", "ranking"},
    {"blackbox", "features", "explanation", "training"},
    {"joined", "nn", "records", "render"},
    {"masked"},
    {"explainers", "metrics", "data", "io"},
    {"matched", "scores"},
    {"plots", "scale"},
    {"demo", "study"},
    {"web"},
    {"human"},
    {"cli"},
    {"__main__"},
]
# to_html draws a plain record, to_json writes it, concat puts several together
LATE = {("explanation", "render"), ("explanation", "records"), ("explanation", "joined")}


def test_public_names_are_these():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    seen_by_type_checkers = {a.asname for node in typed.body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert seen_by_type_checkers == set(aimwise.__all__) == PUBLIC
    assert set(dir(aimwise)) >= PUBLIC


def test_names_and_modules_come_when_they_are_asked_for():
    code = (
        "import sys, aimwise; light = not {'torch', 'numpy'} & set(sys.modules); "
        "from aimwise import AIM; from aimwise import data; aimwise.metrics; "
        "print(light, AIM is aimwise.explainers.AIM, hasattr(aimwise, 'AMI'), callable(data.load))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["True", "True", "False", "True"]


def test_every_public_name_says_what_it_is():
    assert all(getattr(aimwise, n).__doc__ for n in PUBLIC - {"METHODS"})


def test_errors_form_one_tree_drawn_in_the_docstring():
    classes = [e for e in vars(errors).values() if isinstance(e, type) and e.__module__ == errors.__name__]
    assert all(issubclass(e, errors.AimwiseError) for e in classes)
    assert all(e.__name__ in (errors.__doc__ or "") for e in classes)


def test_importing_loads_torch_and_numpy_and_nothing_else_of_weight():
    code = (
        "import sys, json, numpy, torch; before = {m.split('.')[0] for m in sys.modules}; import aimwise; "
        "[getattr(aimwise, n) for n in aimwise.__all__]; "
        "print(json.dumps(sorted({m.split('.')[0] for m in sys.modules} - before - set(sys.stdlib_module_names))))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(json.loads(out)) <= {"aimwise", "jaxtyping", "wadler_lindig"}


def test_imports_point_one_way():
    rank = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    wrong = []
    for path in SOURCE.rglob("*.py"):
        here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        wrong += [
            (path.name, there) for there in imported(path) - {here} if rank[there] >= rank[here] and (here, there) not in LATE
        ]
    assert wrong == []


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("aimwise."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "aimwise":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("aimwise.")}
    return found


def test_nothing_is_pickled():
    modules = {"pickle", "dill", "cloudpickle", "shelve", "marshal"}  # joblib runs cells in processes, and reads no file
    calls = {"torch.load", "torch.save", "joblib.load", "joblib.dump", "yaml.load", "eval", "exec", "pd.read_pickle"}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
        names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not {name.split(".")[0] for name in names} & modules, path
        called = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not {ast.unparse(node.func) for node in called} & calls, path
        loads = [ast.unparse(node) for node in called if ast.unparse(node.func) == "np.load"]
        assert not any("allow_pickle" in load for load in loads), path
