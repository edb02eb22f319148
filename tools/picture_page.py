"""Take a picture of the top of an execution's page, as a browser shows it.

.venv/bin/python tools/picture_page.py docs/report.png [REPORT.html]

Without a page, that of the latest execution in .compilegate. `make browser` makes the browser.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
CHROMIUM = ROOT / "tests" / "report" / "browser" / "node_modules" / "chromium" / "chromium"
WIDTH, HEIGHT = 1180, 1300


def take(page: Path, picture: Path) -> None:
    """Write the PNG."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            env={**os.environ, "LD_LIBRARY_PATH": str(CHROMIUM.parent / "lib")},
        )
        shown = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        shown.goto(page.resolve().as_uri())
        shown.screenshot(path=str(picture))
        browser.close()


def latest() -> Path:
    """The page of the execution that ended last."""
    pages = (ROOT / ".compilegate" / "executions").glob("*/report.html")
    return max(pages, key=lambda page: page.stat().st_mtime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", type=Path, help="the file to write")
    parser.add_argument("page", type=Path, nargs="?", help="the page")
    options = parser.parse_args()
    take(options.page or latest(), options.picture)


if __name__ == "__main__":
    main()
