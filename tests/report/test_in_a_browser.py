"""The pages in a real Chromium: what is seen, reached and told, on wide and on narrow screens."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
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
STEP = StepFacts(
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
    log="/a/long/path/log.txt",
)

VISIBLE_TEXTS = """svg => [...svg.querySelectorAll('text')]
  .filter(text => !text.closest('.tip') && text.textContent.trim())
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
    const skipped = node.closest('title, desc, style, .tip');
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
    first = verdict.candidates[0]
    arm = observations.arms[1]
    seeds = [item for item in observations.replicates if item.arm == first.arm]
    candidates, arms, replicates = [], [observations.arms[0]], list(observations.replicates[:2])
    for number in range(8):
        name = f"inductor-max-autotune-batch-{2**number}"
        off = number * 0.21
        speed = dataclasses.replace(
            first.speed,
            speedup=Interval(0.8 + off, 0.8 + off / 2, 0.8 + off * 2 + 0.01),
            required_speedup=(1.2, 1.37, None)[number % 3],
            outcome=(Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE)[number % 3],
        )
        candidates.append(dataclasses.replace(first, arm=name, speed=speed))
        arms.append(dataclasses.replace(arm, arm=name))
        replicates += [dataclasses.replace(item, arm=name) for item in seeds]
    return (
        dataclasses.replace(verdict, candidates=tuple(candidates)),
        dataclasses.replace(observations, arms=tuple(arms), replicates=tuple(replicates)),
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


@pytest.fixture(params=["few", "many"])
def told(request, verdict, observations, crowd) -> tuple[Verdict, Observations]:
    """A verdict on a few candidates, or on many."""
    return (verdict, observations) if request.param == "few" else crowd


@pytest.mark.parametrize("width", [WIDE, 768, NARROW])
def test_no_text_of_a_chart_lies_on_another_and_nothing_leaves_the_screen(
    show: Show, told: tuple[Verdict, Observations], width: int
) -> None:
    page = show(render_html(*told, ABOUT), width=width)
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


def test_pointing_at_an_interval_shows_its_numbers(show: Show, verdict, observations) -> None:
    page = show(render_html(verdict, observations, ABOUT))
    chart = page.locator("svg:has(#forest-accuracy-title)")
    tip = chart.locator(".tip").first
    assert not tip.is_visible()
    chart.locator(".mark").first.hover()
    assert tip.is_visible()
    assert "94.33% against 94.71%" in tip.text_content()
    assert "2,189 examples" in tip.text_content()
    for text in tip.locator("text").all():
        frame, words = tip.locator("rect").bounding_box(), text.bounding_box()
        assert frame["x"] <= words["x"]
        assert words["x"] + words["width"] <= frame["x"] + frame["width"]


def test_the_loss_tells_its_numbers_along_the_curve(show: Show, verdict, observations) -> None:
    page = show(render_html(verdict, observations, ABOUT))
    chart = page.locator("svg:has(#loss-2-title)")
    chart.locator(".mark").nth(5).hover()
    shown = chart.locator(".tip:visible")
    assert shown.count() == 1
    assert "after 50%" in shown.text_content()
    assert "baseline: 0.4" in shown.text_content()


def test_the_keyboard_reaches_the_verdict_first_and_every_interval(
    show: Show, verdict, observations
) -> None:
    page = show(render_html(verdict, observations, ABOUT))
    told = []
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.getAttribute('aria-label')")
        if name:
            told.append(name)
    assert told[0].startswith("larger-batch: 0.2233 against 0.2011")  # the first chart
    assert any(name.startswith("larger-batch: 94.33% against 94.71%") for name in told)
    assert any(name.startswith("larger-batch: 1.37") for name in told)
    page.locator("svg:has(#forest-speed-title) .mark").first.focus()
    assert "required: 1.20" in page.locator("svg .tip:visible").text_content()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_screen_reader_is_told_the_charts_and_the_tables(
    show: Show, verdict, observations, width: int
) -> None:
    page = show(render_html(verdict, observations, ABOUT), width=width)
    told = page.locator("main").aria_snapshot()
    assert 'group "Accuracy against the baseline' in told
    assert 'img "larger-batch: 94.33% against 94.71%' in told
    assert 'table "The same in numbers"' in told
    # On a phone the rows are laid out as blocks, and are rows all the same.
    assert 'rowheader "Speed-up"' in told
    assert 'heading "At a glance" [level=2]' in told


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(
    show: Show, verdict, observations, scheme: str
) -> None:
    failed = ExecutionFacts("topics", "Failed", None, [STEP], ABOUT, "compilegate run x --resume")
    for html in (render_html(verdict, observations, ABOUT), render_execution_html(failed)):
        found = show(html, scheme=scheme).evaluate(CONTRASTS)
        assert len(found) > 20
        assert [item for item in found if item["ratio"] < 4.5] == []


def test_dark_is_dark(show: Show, verdict, observations) -> None:
    grounds = [
        show(render_html(verdict, observations), scheme=scheme).evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for scheme in ("light", "dark")
    ]
    assert grounds == ["rgb(251, 250, 247)", "rgb(20, 22, 26)"]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_failure_is_told_with_its_remedy_on_the_first_screen(show: Show, width: int) -> None:
    facts = ExecutionFacts("topics", "Failed", None, [STEP], ABOUT, "compilegate run --resume abc")
    page = show(render_execution_html(facts), width=width)
    assert "out of memory" in page.locator("h1").inner_text()
    remedy = page.locator(".remedy").bounding_box()
    assert remedy["y"] + remedy["height"] < 800
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    log = page.get_by_text("/a/long/path/log.txt").bounding_box()
    assert log["y"] > remedy["y"] + remedy["height"]


def test_what_starts_it_again_is_selected_whole_by_one_click(
    show: Show, verdict, observations
) -> None:
    page = show(render_html(verdict, observations, ABOUT))
    page.locator(".command code").click()
    assert page.evaluate("getSelection().toString()").strip() == "compilegate run news-topics"
