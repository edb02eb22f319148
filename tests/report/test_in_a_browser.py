"""The pages in a real Chromium: what is seen, on wide and on narrow screens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compilegate.gate.findings import Outcome
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import Interval, Verdict
from compilegate.report import (
    About,
    ExecutionFacts,
    StepFacts,
    render_execution_html,
    render_html,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.long, pytest.mark.slow]

CHROMIUM = Path(__file__).parent / "browser" / "node_modules" / "chromium" / "chromium"
"""`make browser` puts it there."""
WIDE, NARROW = 1280, 390
FIRST_SCREENS = ((WIDE, 800), (NARROW, 844))
MOST_PIXELS = 4_200
"""The height of the page of a run with a candidate or two."""
ABOUT = About(
    execution_id="k3v9x0qhw2ta",
    started=1_795_338_033.0,
    seconds=559.0,
    data="s3://bucket/data/news/b9983e22ccccda9f95c102a89d9ed45c",
    commit="5a37271d1f7c0f0c5a2c8a5b4d1a77f0e2a0a0b1",
    command="compilegate run news-topics",
    models=("news-topics/3, PendingManualApproval",),
)
LOG = "/a/long/path/log.txt"
FAILED = StepFacts(
    name="Train-baseline-1",
    type="Training",
    status="Failed",
    seconds=5.2,
    cached=False,
    metrics={},
    failure="exit code 1",
    last_lines=(
        'File "/a/long/path/of/a/sandbox/opt/ml/code/train.py", line 97, in <module>',
        "RuntimeError: CUDA error: out of memory",
    ),
    log=LOG,
)
WITHOUT_VERDICT = ExecutionFacts(
    "topics", "Failed", None, [FAILED], ABOUT, "compilegate run --resume abc"
)

VISIBLE_TEXTS = """svg => [...svg.querySelectorAll('text')]
  .filter(text => text.textContent.trim())
  .map(text => { const box = text.getBoundingClientRect();
    return {words: text.textContent, left: box.left, right: box.right, top: box.top,
            bottom: box.bottom}; })"""
"""Of a chart, each text with the box that it takes on the screen."""

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
"""Of each text of the page, how its colour stands out from what it stands on (WCAG 2, 1.4.3)."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  for these tests alone

    assert CHROMIUM.is_file(), f"{CHROMIUM} is missing; make it with: make browser"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            env={**os.environ, "LD_LIBRARY_PATH": str(CHROMIUM.parent / "lib")},
        )
        yield launched
        launched.close()


Show = Callable[..., "Page"]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a page; nothing may be asked for but that page, and nothing may go wrong in it."""
    opened: list[Any] = []
    asked: list[str] = []
    said: list[str] = []

    def open_page(
        html: str,
        *,
        width: int = WIDE,
        height: int = 800,
        scheme: str = "light",
        whole: bool = True,
    ) -> Page:
        """`whole`: with nothing folded."""
        path = tmp_path / "report.html"
        path.write_text(html)
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=True,
        )
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path.as_uri())
        if whole:
            page.evaluate("document.querySelectorAll('details').forEach(it => { it.open = true })")
        opened.append(context)
        return page

    yield open_page
    for context in opened:
        context.close()
    assert {url for url in asked if not url.endswith("/report.html")} == set()
    assert said == []


@pytest.fixture
def crowd(verdict: Verdict, observations: Observations) -> tuple[Verdict, Observations]:
    """Eight candidates with long names, different limits and intervals of every width."""
    first, arm = verdict.candidates[0], observations.arms[1]
    names = [f"inductor-max-autotune-batch-{2**number}" for number in range(8)]
    candidates = []
    for number, name in enumerate(names):
        off = number * 0.21
        speed = replace(
            first.speed,
            speedup=Interval(0.8 + off, 0.8 + off / 2, 0.8 + off * 2 + 0.01),
            required_speedup=(1.2, 1.37, None)[number % 3],
            outcome=(Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE)[number % 3],
        )
        candidates.append(replace(first, arm=name, speed=speed))
    arms = (observations.arms[0], *(replace(arm, arm=name) for name in names))
    jobs = tuple(replace(observations.replicates[2], arm=name) for name in names)
    return (
        replace(verdict, candidates=tuple(candidates)),
        replace(observations, arms=arms, replicates=(*observations.replicates[:2], *jobs)),
    )


def overlaps(page: Page) -> list[tuple[str, str]]:
    """Texts of a chart that lie on one another by more than a pixel."""
    found = []
    for svg in page.query_selector_all("svg"):
        boxes = svg.evaluate(VISIBLE_TEXTS)
        found += [
            (one["words"], other["words"])
            for number, one in enumerate(boxes)
            for other in boxes[number + 1 :]
            if min(one["right"], other["right"]) - max(one["left"], other["left"]) > 1.0
            and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > 3.0
        ]
    return found


@pytest.mark.parametrize(("width", "height"), FIRST_SCREENS)
def test_the_first_screen_has_the_verdict_the_registered_model_and_a_chart(
    show: Show, verdict, observations, width: int, height: int
) -> None:
    html = render_html(verdict, observations, ABOUT)
    page = show(html, width=width, height=height, whole=False)
    for part in ("h1", ".registered", "svg"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= height, part
    assert page.evaluate("document.documentElement.scrollHeight") <= MOST_PIXELS
    assert not page.get_by_text("5a37271d1f7c").is_visible()  # metadata are folded


@pytest.mark.parametrize("candidates", ["few", "many"])
@pytest.mark.parametrize("width", [WIDE, 768, NARROW])
def test_no_text_of_a_chart_lies_on_another_and_nothing_leaves_the_screen(
    show: Show, verdict, observations, crowd, *, candidates: str, width: int
) -> None:
    judged = (verdict, observations) if candidates == "few" else crowd
    page = show(render_html(*judged, ABOUT), width=width)
    assert overlaps(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for svg in page.query_selector_all("svg"):
        for box in svg.evaluate(VISIBLE_TEXTS):
            assert box["left"] >= 0.0, box
            assert box["right"] <= width, box


def test_on_a_phone_every_candidate_is_reached_without_scrolling_sideways(
    show: Show, crowd
) -> None:
    page = show(render_html(*crowd, ABOUT), width=NARROW)
    names = [candidate.arm for candidate in crowd[0].candidates]
    for row in page.query_selector_all("table.glance tbody tr"):
        shown = [cell.query_selector(".whose") for cell in row.query_selector_all("td")]
        assert [item.inner_text().strip() for item in shown] == names
        for cell in row.query_selector_all("td"):
            box = cell.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= NARROW


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_screen_reader_has_the_charts_and_the_tables(
    show: Show, verdict, observations, width: int
) -> None:
    page = show(render_html(verdict, observations, ABOUT), width=width)
    heard = page.locator("main").aria_snapshot()
    assert 'img "Accuracy, difference from the baseline' in heard
    assert "larger-batch: \N{MINUS SIGN}0.38 points (\N{MINUS SIGN}0.71 to" in heard
    assert 'table "The same in numbers"' in heard
    # On a phone the rows are laid out as blocks, and are rows all the same.
    assert 'rowheader "Speed-up"' in heard


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(
    show: Show, verdict, observations, scheme: str
) -> None:
    for html in (
        render_html(verdict, observations, ABOUT),
        render_execution_html(WITHOUT_VERDICT),
    ):
        page = show(html, scheme=scheme)
        found = page.evaluate(CONTRASTS)
        assert len(found) > 20
        assert [item for item in found if item["ratio"] < 4.5] == []
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(251, 250, 247)" if scheme == "light" else "rgb(20, 22, 26)")


@pytest.mark.parametrize(("width", "height"), FIRST_SCREENS)
def test_a_failure_and_its_remedy_are_on_the_first_screen(
    show: Show, width: int, height: int
) -> None:
    page = show(render_execution_html(WITHOUT_VERDICT), width=width, height=height)
    assert "out of memory" in page.locator("h1").inner_text()
    remedy = page.locator(".remedy").bounding_box()
    assert remedy["y"] + remedy["height"] < height
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.get_by_text(LOG).bounding_box()["y"] > remedy["y"] + remedy["height"]
