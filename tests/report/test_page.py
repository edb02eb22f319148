"""The HTML page: self-contained, escaped, and true to the verdict's numbers; and the Markdown."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from compilegate.gate.findings import Outcome
from compilegate.gate.verdict import Decision, Interval, Verdict
from compilegate.job.evidence import PaddedPositions, PaddingRecord
from compilegate.report import About, render_html, render_markdown, summary_lines
from compilegate.report.details import Table, sections
from compilegate.report.summary import summary_table
from compilegate.report.svg import with_minus_signs

GOLDEN = Path(__file__).parent / "golden" / "report.md"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>&{{7*7}}'
PADDED = PaddingRecord(
    "max", (64,), (16, 64), 3_000, PaddedPositions(10_000, 4_200, 7_000), (32, 64), (37, 1_210)
)


class Page(HTMLParser):
    """The elements and the text of a page; unbalanced tags are an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.words = " ".join(self.words.split())
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "br"}:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.words += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def page(verdict, observations) -> Page:
    return Page(render_html(verdict, observations))


@pytest.mark.parametrize(
    ("registers", "models", "shown"),
    [
        ("baseline", (), "the model of baseline (seed 1)."),
        ("baseline", ("news/3, Approved",), "news/3, Approved: the model of baseline (seed 1)."),
        ("nothing-new", (), "(seed 1) is identical to the registered model."),
    ],
)
def test_decision_and_registered_model_come_first_and_metadata_last_and_folded(
    verdict, observations, registers, models, shown
):
    other = replace(verdict, decision=replace(verdict.decision, registers=registers))
    page = Page(render_html(other, observations, About(models=models)))
    order = (f"<h1>{verdict.decision.sentence}", shown, "<svg", "<details>", "This execution")
    places = [page.html.index(it) for it in order]
    assert places == sorted(places)
    # What is open, then what passed.
    assert re.findall(r'id="forest-(\w+)-title"', page.html)[:2] == ["log_loss", "parity"]
    assert shown in render_markdown(other, observations, About(models=models))


def test_a_reason_is_never_cut_off(verdict, observations):
    long = "The compiled arithmetic differs: " + "because " * 100 + "of that."
    first = verdict.candidates[0]
    candidate = replace(first, reasons=(replace(first.reasons[0], sentence=long),))
    other = replace(verdict, candidates=(candidate,))
    assert Page(render_html(other, observations)).words.count(long) == 2  # on its card, and below
    assert f"  {long}" in summary_lines(other)


def test_the_page_has_every_number_and_reason_of_summary_and_sections(page, verdict, observations):
    """The golden Markdown holds the numbers themselves."""
    shown = [cell.value for _, cells in summary_table(verdict) for cell in cells]
    for title, blocks in sections(verdict, observations):
        shown.append(title)
        for block in blocks:
            if isinstance(block, Table):
                shown += [cell for row in block.rows for cell in row]
            elif isinstance(block, tuple):
                shown += [words for point in block for words in (point.text, point.code)]
    assert len(shown) > 100
    assert [it for it in shown if " ".join(with_minus_signs(it).split()) not in page.words] == []


def test_nothing_is_fetched_nothing_runs_and_links_lead_to_scripts_beside_the_page(page):
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object"}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not names & {"src", "srcset", "xlink:href", "action"}
    assert [name for name in names if name.startswith("on")] == []
    assert not re.search(r"https?://|url\(|@import", page.html)
    assert [it["href"] for it in page.named("a")] == ["repros/broken--1/repro.py"]


def test_text_from_outside_cannot_inject(verdict, observations):
    first, job = verdict.candidates[0], observations.replicates[0]
    candidate = replace(
        first,
        arm=HOSTILE,
        reasons=(replace(first.reasons[0], sentence=HOSTILE),),
        confounds=(replace(first.confounds[0], name=HOSTILE, baseline=HOSTILE),),
    )
    decision = Decision(HOSTILE, 1, HOSTILE)
    outside = replace(verdict, workload=HOSTILE, decision=decision, candidates=(candidate,))
    arm = replace(observations.arms[0], arm=HOSTILE, environment={HOSTILE: HOSTILE})
    ignored = replace(job, arm=HOSTILE, job=HOSTILE, cache_ignored=HOSTILE)
    jobs = (ignored, replace(ignored, problem=HOSTILE))
    observed = replace(observations, arms=(arm,), replicates=jobs)
    page = Page(render_html(outside, observed))
    assert not {tag for tag, _ in page.elements} & {"script", "img"}
    assert page.words.count(HOSTILE) > 10
    assert not re.search(r"(?<!\\)<(script|img)", render_markdown(outside, observed))


def test_what_there_is_nothing_of_is_left_out(verdict, observations):
    """On a machine without an accelerator all words about GPUs."""
    own = {"accelerator": "none", "cuda": "none", "float32_matmul_gpu": "ieee", "cpu": "x"}
    arms = tuple(replace(arm, environment=own) for arm in observations.arms)
    nothing = replace(observations, arms=arms, replicates=(), left_out=("xla", "b"))
    lost = replace(
        verdict,
        baseline=replace(verdict.baseline, sound=False, noise_floor=()),
        candidates=(replace(verdict.candidates[1], parity=None),),
        cost=None,
    )
    html = render_html(lost, nothing)
    assert "not judged: xla, b" in html
    assert not re.search(r"<svg|Cost and savings|gpu|cuda|accelerator", html, re.IGNORECASE)
    own["accelerator"] = "A10G"
    assert "float32_matmul_gpu" in render_html(lost, nothing)


@pytest.mark.parametrize(
    "changes",
    [
        {"padding": "buckets"},
        {"tokens": 7_050, "positions": PaddedPositions(10_000, 7_100, 7_080)},
        {"positions": PaddedPositions(10_000, 9_200, 7_000)},
    ],
)
def test_buckets_are_advised_where_there_is_something_to_gain(verdict, observations, changes):
    padded = replace(observations.arms[0], padding=PADDED)
    page = render_markdown(verdict, replace(observations, arms=(padded,)))
    assert re.search("70% of the 10,000 .* 58% fewer", page)
    others = replace(padded, padding=replace(PADDED, **changes))
    assert "% fewer" not in render_markdown(verdict, replace(observations, arms=(others,)))


# Charts.


def test_every_chart_says_in_words_what_it_shows(page):
    charts = page.named("svg")
    # Three metrics, speed and parity; the loss of three arms.
    assert len(charts) == 5 + 3
    identities = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
    for attributes in charts:
        assert attributes["role"] == "img"
        assert set((attributes["aria-labelledby"] or "").split()) <= set(identities)


def drawn(html: str, name: str, kind: str) -> list[ET.Element]:
    """The marks of this kind in the picture of this name."""
    figure = html[html.rindex("<svg", 0, html.index(f'id="forest-{name}-title"')) :]
    chart = ET.fromstring(figure[: figure.index("</svg>") + 6])  # noqa: S314 - our own
    return [item for item in chart.iter() if kind in (item.get("class") or "").split()]


def bar(html: str, name: str) -> tuple[float, float]:
    """From where to where the first interval goes."""
    line = next(it for it in drawn(html, name, "interval") if it.get("y1") == it.get("y2"))
    return float(line.get("x1")), float(line.get("x2"))


def with_speed(verdict: Verdict, **changes: object) -> Verdict:
    """The verdict with a second candidate that differs from the first one in its speed."""
    first = verdict.candidates[0]
    other = replace(first, arm="other", speed=replace(first.speed, **changes))
    return replace(verdict, candidates=(first, other))


def test_an_interval_is_drawn_at_its_numbers(page):
    """Better lies to the right, so a margin below the interval is left of all of it."""
    limit = float(drawn(page.html, "accuracy", "limit")[0].get("x1"))
    zero = float(drawn(page.html, "accuracy", "reference")[0].get("x1"))
    left, right = bar(page.html, "accuracy")
    # Positions are proportional to numbers: -0.71 and -0.05 points between -1.00 and 0.
    assert (left - limit) / (zero - limit) == pytest.approx(0.29, abs=0.005)
    assert (right - limit) / (zero - limit) == pytest.approx(0.95, abs=0.005)
    swatches = drawn(page.html, "accuracy", "swatch")  # each candidate has its row and its colour
    assert [it.get("class") for it in swatches] == ["swatch arm-1", "swatch arm-2"]


def test_a_limit_that_no_speed_up_reaches_shades_the_whole_row(verdict, observations):
    hopeless = with_speed(verdict, required_speedup=None, outcome=Outcome.FAIL)
    html = render_html(hopeless, observations)
    assert len(drawn(html, "speed", "limit")) == 1
    ends = [float(it.get("x")) + float(it.get("width")) for it in drawn(html, "speed", "zone-bad")]
    assert ends[0] < ends[1] == pytest.approx(432.0)


@pytest.mark.parametrize(
    ("ends", "arrows"), [((1.0, 1.0, 1.0), 0), ((1.2, 1.2, 1.2), 0), ((1.4, 0.001, 90.0), 2)]
)
def test_any_interval_is_drawn_within_the_chart(verdict, observations, ends, arrows):
    """One that is far wider than what matters runs out of it, with an arrow to each side."""
    page = Page(render_html(with_speed(verdict, speedup=Interval(*ends)), observations))
    assert all(0.0 <= float(line["x1"] or "nan") <= 440.0 for line in page.named("line"))
    assert len(drawn(page.html, "speed", "beyond")) == arrows
    left, right = bar(page.html, "speed")
    assert right - left > 10.0  # the other candidate's interval can still be read


# Markdown.


def test_the_markdown_of_a_fixed_verdict_is_the_golden_one(verdict, observations):
    """UPDATE_GOLDEN=1 writes it. Every row of a table has as many cells as the row above, though
    the verdict's text holds a pipe."""
    rendered = render_markdown(verdict, observations)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(rendered, encoding="utf-8")
    assert rendered == GOLDEN.read_text(encoding="utf-8")
    lines = rendered.replace("\\|", "").splitlines()
    for above, line in pairwise(lines):
        assert above[:1] != "|" or line[:1] != "|" or above.count("|") == line.count("|")
