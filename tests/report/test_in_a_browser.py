"""The pages in a real Chromium: what is seen, on wide and on narrow screens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compilegate.gate.verdict import Interval
from compilegate.report import About, render_execution_html, render_html
from tests.report.test_execution_report import FACTS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.long, pytest.mark.slow]

CHROMIUM = Path(__file__).parent / "browser" / "node_modules" / "chromium" / "chromium"
"""`make browser` puts it there."""
WIDE, NARROW = 1280, 390
FIRST_SCREENS = ((WIDE, 800), (NARROW, 844))
MOST_PIXELS = 4_200
"""The height of the page of a run with a candidate or two."""
ABOUT = About("k3v9x0qhw2ta", 1_795_338_033.0, 559.0, commit="5a37271d1f7c", models=("topics/3",))

OVERLAPS = """svg => {
  const boxes = [...svg.querySelectorAll('text')].filter(it => it.textContent.trim())
    .map(it => [it.textContent, it.getBoundingClientRect()]);
  const meet = (one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
    && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3;
  return boxes.flatMap(([words, box], index) => boxes.slice(index + 1)
    .filter(([, other]) => meet(box, other)).map(([others]) => [words, others]));
}"""
"""The texts of a chart that overlap by more than a pixel."""

CONTRASTS = """() => {
  const parse = text => { const found = text.match(/[\\d.]+/g).map(Number);
    return {rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1}; };
  const over = (top, under) => top.rgb.map((c, i) => c * top.alpha + under[i] * (1 - top.alpha));
  const ground = node => {
    const layers = [];
    for (let at = node; at instanceof Element; at = at.parentElement) {
      const layer = parse(getComputedStyle(at).backgroundColor);
      layers.push(layer);
      if (layer.alpha === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = rgb => rgb.map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  for (const node of document.querySelectorAll('main *')) {
    const own = [...node.childNodes].some(it => it.nodeType === 3 && it.textContent.trim());
    const skipped = node.closest('title, desc, style');
    if (!own || skipped || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), inChart = node instanceof SVGElement;
    const colour = parse(inChart ? style.fill : style.color), under = ground(node);
    const [a, b] = [light(over(colour, under)), light(under)].sort((x, y) => y - x);
    found.push({words: node.textContent.trim().slice(0, 40), ratio: (a + 0.05) / (b + 0.05)});
  }
  return found;
}"""
"""The contrast of each text of the page with its background (WCAG 2, 1.4.3)."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  for these tests alone

    assert CHROMIUM.is_file(), f"{CHROMIUM} is missing; make it with: make browser"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(CHROMIUM.parent / "lib")}
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), env=environment)
        yield launched
        launched.close()


Show = Callable[..., "Page"]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a page; nothing may be asked for but that page, and nothing may go wrong in it."""
    requested: list[str] = []
    problems: list[str] = []

    def open_page(html: str, *, width: int = WIDE, height: int = 800, **context: object) -> Page:
        path = tmp_path / "report.html"
        path.write_text(html)
        page = browser.new_page(viewport={"width": width, "height": height}, **context)
        page.on("request", lambda request: requested.append(request.url))
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in browser.contexts:
        context.close()
    assert {url for url in requested if not url.endswith("/report.html")} == set()
    assert problems == []


def unfold(page: Page) -> Page:
    page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")
    return page


@pytest.mark.parametrize(("width", "height"), FIRST_SCREENS)
def test_the_first_screen_has_what_matters_and_the_page_is_short(
    show: Show, verdict, observations, width: int, height: int
) -> None:
    """The verdict, the registered model and a chart; of a failure the reason and the remedy."""
    html = render_html(verdict, observations, ABOUT)
    parts = {html: ("h1", ".registered", "svg"), render_execution_html(FACTS): ("h1", ".remedy")}
    for html, seen in parts.items():
        page = show(html, width=width, height=height)
        for part in seen:
            box = page.locator(part).first.bounding_box()
            assert box["y"] + box["height"] <= height, part
        assert page.evaluate("document.documentElement.scrollHeight") <= MOST_PIXELS
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not page.get_by_text("22 November 2026").is_visible()  # metadata are folded
    # On a phone the rows of a table are laid out as blocks, and are rows all the same.
    heard = show(render_html(verdict, observations), width=width).locator("main").aria_snapshot()
    assert 'rowheader "Speed-up"' in heard


@pytest.mark.parametrize("width", [WIDE, 768, NARROW])
@pytest.mark.parametrize("candidates", [2, 8])
def test_no_text_of_a_chart_lies_on_another_and_nothing_leaves_the_screen(
    show: Show, verdict, observations, candidates: int, width: int
) -> None:
    """With names of any length, different limits and intervals of every width."""
    first, arms = verdict.candidates[0], list(observations.arms)
    crowd = list(verdict.candidates)
    for number in range(2, candidates):
        name, at = f"inductor-max-autotune-batch-{2**number}", 0.8 + number * 0.2
        interval = Interval(at, at / 2, at * 2)
        speed = replace(
            first.speed, speedup=interval, required_speedup=(1.2, 1.4, None)[number % 3]
        )
        crowd.append(replace(first, arm=name, speed=speed))
        arms.append(replace(arms[1], arm=name))
    judged = replace(verdict, candidates=tuple(crowd))
    html = render_html(judged, replace(observations, arms=tuple(arms)), ABOUT)
    page = unfold(show(html, width=width))
    assert [it for svg in page.query_selector_all("svg") for it in svg.evaluate(OVERLAPS)] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for box in (it.bounding_box() for it in page.query_selector_all("svg text, .judgements td")):
        if width == NARROW and box is not None:  # a wide table may scroll in its frame
            assert 0.0 <= box["x"] <= box["x"] + box["width"] <= width, box


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(
    show: Show, verdict, observations, scheme: str
) -> None:
    grounds = set()
    for html in (render_html(verdict, observations, ABOUT), render_execution_html(FACTS)):
        page = unfold(show(html, color_scheme=scheme))
        found = page.evaluate(CONTRASTS)
        assert len(found) > 20
        assert [item for item in found if item["ratio"] < 4.5] == []
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == {"rgb(251, 250, 247)" if scheme == "light" else "rgb(20, 22, 26)"}
