"""The site builds without a warning, fetches nothing from elsewhere, and its reference has every public name."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import aimwise
from aimwise import errors, metrics, plots, scores
from doc_blocks import DOCS, ROOT

MODULES = (errors, metrics, plots, scores)
SMALL = 150_000  # bytes of a picture


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built into a folder of its own."""
    pytest.importorskip("mkdocs", reason="needs aimwise[docs]")
    pytest.importorskip("material", reason="needs aimwise[docs]")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def pages(site: Path) -> dict[str, str]:
    found = (path for path in site.rglob("*.html") if path.name != "404.html")  # whose links are those of a server
    return {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in found}


def test_nothing_is_fetched_from_elsewhere(site):
    fetched = re.compile(r"""<(?:script|img|link|iframe|source)[^>]+(?:src|href)=["']?((?:https?:)?//[^"' >]+)""")
    for name, text in pages(site).items():
        assert fetched.findall(text) == [], name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import", style.read_text(encoding="utf-8")), style


def test_every_link_inside_leads_somewhere(site):
    found = pages(site)
    anchors = {name: set(re.findall(r'id="?([^" >]+)', text)) for name, text in found.items()}
    for name, text in found.items():
        for link in set(re.findall(r'<a [^>]*href="([^"]+)"', text)):
            place, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", link):
                continue
            target = (site / name).parent / place if place else site / name
            target = Path(os.path.normpath(target))
            if target.is_dir():
                target /= "index.html"
            assert target.is_file(), (name, link)
            if anchor and target.suffix == ".html":
                assert anchor in anchors[str(target.relative_to(site))], (name, link)


def test_links_of_the_readme_lead_to_files():
    for page in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8")):
            assert (ROOT / link).is_file(), (page, link)


def test_the_reference_has_every_public_name(site):
    text = "".join(page for name, page in pages(site).items() if name.startswith("reference"))
    for name in aimwise.__all__:
        assert f'id="aimwise.{name}"' in text or name == "METHODS", name
    for method in aimwise.METHODS.values():
        assert f'id="aimwise.explainers.{method.__name__}"' in text or f'id="aimwise.{method.__name__}"' in text, method
    assert "aimwise.METHODS" in text


def test_every_public_thing_says_in_its_first_sentence_what_it_is():
    things = {f"aimwise.{name}": getattr(aimwise, name) for name in aimwise.__all__ if name != "METHODS"}
    things |= {f"METHODS[{name!r}]": method for name, method in aimwise.METHODS.items()}
    for module in MODULES:
        things |= {f"{module.__name__}.{n}": v for n, v in vars(module).items() if is_own(module, n, v)}
    for owner in [thing for thing in things.values() if inspect.isclass(thing)]:
        things |= {f"{owner.__name__}.{n}": v for n, v in vars(owner).items() if not n.startswith("_") and inspect.isfunction(v)}
    for name, thing in things.items():
        told = inspect.getdoc(thing) or ""
        first = re.split(r"(?<=[.:])\s|\n\n", told)[0].strip()
        assert len(first.split()) > 2, (name, told)
        assert first[-1] in ".:", (name, first)


def is_own(module: object, name: str, value: object) -> bool:
    return not name.startswith("_") and callable(value) and getattr(value, "__module__", "").startswith(module.__name__)


def test_pictures_are_small():
    for path in (DOCS / "img").iterdir():
        assert path.stat().st_size < SMALL, path


def test_the_two_commands_come_first():
    lines = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.strip()]
    assert lines[0] == "# aimwise"
    assert lines[2].startswith("make demo")
    assert lines[3].startswith("make test")
