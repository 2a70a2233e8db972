"""What is released: a small wheel and a source archive that build, pass their check, and work in a clean environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from doc_blocks import ROOT

SMALL = 1_000_000  # bytes of a wheel
COPIED = ("pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md", "src")


def run(*words: object, cwd: Path) -> str:
    """What a command says; a build must not see what tests set."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHONPATH"))}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd, env=env, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with a wheel and a source archive, built from a copy of what they are made of."""
    pytest.importorskip("build", reason="needs aimwise[dev]")
    source = tmp_path_factory.mktemp("source")
    for name in COPIED:
        from_, to = ROOT / name, source / name
        if from_.is_dir():
            shutil.copytree(from_, to, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(from_, to)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", source / "dist", cwd=source)
    return source / "dist"


def one(folder: Path, ending: str) -> Path:
    (found,) = folder.glob(f"*{ending}")
    return found


def test_the_wheel_is_small_and_holds_the_package_alone(built):
    wheel = one(built, ".whl")
    assert wheel.stat().st_size < SMALL
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"aimwise"}
    kept = [name for name in names if name.endswith((".parquet", ".csv", ".npz", ".safetensors", ".png"))]
    assert sorted(kept) == [
        f"aimwise/data/kept/{name}/weights.safetensors" for name in ("fashion3", "fashion_mnist", "mnist", "mnist3")
    ]
    assert not [name for name in names if "test" in name.lower()]


def test_the_wheel_holds_every_module_and_every_file_of_the_pages(built):
    names = set(zipfile.ZipFile(one(built, ".whl")).namelist())
    wanted = [p for p in (ROOT / "src" / "aimwise").rglob("*") if p.suffix in (".py", ".css", ".js", ".html", ".json")]
    assert {str(p.relative_to(ROOT / "src")) for p in wanted if "__pycache__" not in p.parts} <= names
    assert "aimwise/py.typed" in names


def test_both_pass_the_check_of_what_is_uploaded(built):
    pytest.importorskip("twine", reason="needs aimwise[dev]")
    said = run(sys.executable, "-m", "twine", "check", "--strict", one(built, ".whl"), one(built, ".tar.gz"), cwd=built)
    assert said.count("PASSED") == 2
    with tarfile.open(one(built, ".tar.gz")) as archive:
        assert not [name for name in archive.getnames() if name.endswith((".parquet", ".npz"))]


@pytest.mark.slow
def test_a_stranger_can_install_the_wheel_and_run_the_demo(built, tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "clean", cwd=tmp_path)
    python = tmp_path / "clean" / "bin" / "python"
    wheel = one(built, ".whl")
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{wheel}[table]", cwd=tmp_path)
    assert str(tmp_path) in run(python, "-c", "import aimwise; print(aimwise.__file__)", cwd=tmp_path)
    said = run(tmp_path / "clean" / "bin" / "aimwise", "demo", cwd=tmp_path)
    assert "Report: " in said
    assert (tmp_path / "aimwise-demo.html").is_file()
