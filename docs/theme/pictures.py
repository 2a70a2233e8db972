"""Makes the pictures of the site from the blocks on its own pages: python docs/theme/pictures.py (needs chromium)."""

import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
IMAGES = ROOT / "docs" / "img"
MADE = {"start/tour.md": ["beeswarm.png"], "tutorials/table.md": ["waterfall.png"], "tutorials/image.md": ["digit.png"]}


def main() -> None:
    """Run the pages, keep their pictures, and photograph the report of the tour."""
    from doc_blocks import DOCS, Session, blocks, run

    matplotlib.use("agg")
    for page, names in MADE.items():
        session = Session(Path(tempfile.mkdtemp()))
        for block in blocks(DOCS / page):
            run(block, session)
        for name in names:
            shutil.copy(session.folder / name, IMAGES / name)
        if page == "start/tour.md":
            photograph(session.folder / "wine.html")


def photograph(page: Path) -> None:
    """The upper part of a report and its first rows, as small pictures of few colours."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    from conftest import FLAGS

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split())
        tab = browser.new_page(viewport={"width": 1100, "height": 900})
        tab.goto(page.as_uri())
        tab.wait_for_timeout(1000)
        tab.screenshot(path=str(IMAGES / "report.png"))
        tab.evaluate("document.querySelector('details').open = false")
        tab.locator("input[type=range]").first.fill("6")
        tab.wait_for_timeout(500)
        top = tab.get_by_text("Row by row").first.bounding_box()["y"] - 20
        tab.screenshot(path=str(IMAGES / "rows.png"), full_page=True, clip={"x": 0, "y": top, "width": 1100, "height": 760})
        browser.close()
    for name in ("report.png", "rows.png"):
        Image.open(IMAGES / name).convert("RGB").quantize(96).save(IMAGES / name, optimize=True)


if __name__ == "__main__":
    main()
