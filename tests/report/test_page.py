"""The HTML page: self-contained, escaped, and true to the verdict's numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from compilegate.gate.findings import Outcome
from compilegate.gate.verdict import Decision, Interval, ParityAnswer, ParityJudgement, Verdict
from compilegate.job.evidence import PaddedPositions, PaddingRecord
from compilegate.report import About, render_html, render_markdown, summary_lines
from compilegate.report.details import Table, sections
from compilegate.report.summary import summary_table
from compilegate.report.svg import with_minus_signs

VOID = {"meta", "br"}
HERE = "repros/"
"""Where links may lead: to scripts beside the page."""
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>&{{7*7}}'
PADDED = PaddingRecord(
    padding="max",
    lengths=(64,),
    bucket_lengths=(16, 64),
    tokens=3_000,
    positions=PaddedPositions(max=10_000, buckets=4_200, longest=7_000),
    histogram_upto=(32, 64),
    histogram_documents=(37, 1_210),
)


class Page(HTMLParser):
    """The elements and the text of a page; unbalanced tags are an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.texts.append((self._open[-1], data))

    @property
    def words(self) -> str:
        return " ".join("".join(text for _, text in self.texts).split())

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
def test_decision_and_registered_model_stand_above_the_first_chart(
    verdict, observations, registers, models, shown
):
    made = replace(verdict, decision=replace(verdict.decision, registers=registers))
    page = Page(render_html(made, observations, About(models=models)))
    assert [text for tag, text in page.texts if tag == "h1"] == [verdict.decision.sentence]
    assert page.words.index(shown) < page.words.index("Log loss")
    assert shown in render_markdown(made, observations, About(models=models))


def test_what_decided_comes_first_and_metadata_last_and_folded(page):
    titles = re.findall(r'id="forest-(\w+)-title"', page.html)
    assert titles[:2] == ["log_loss", "parity"]  # what is open, then what passed
    places = [page.html.index(it) for it in ("What to do", "<details>", "This execution")]
    assert places == sorted(places)


def test_a_reason_is_never_cut_off(verdict, observations):
    long = "The compiled arithmetic differs: " + "because " * 100 + "of that."
    first = verdict.candidates[0]
    candidate = replace(first, reasons=(replace(first.reasons[0], sentence=long),))
    made = replace(verdict, candidates=(candidate,))
    assert Page(render_html(made, observations)).words.count(long) == 2  # on its card, and below
    assert f"  {long}" in summary_lines(made)


def test_the_page_has_every_number_and_reason_of_summary_and_sections(page, verdict, observations):
    """The golden Markdown holds the numbers themselves."""
    shown = [cell.value for line in summary_table(verdict) for cell in line.cells]
    for title, blocks in sections(verdict, observations):
        shown.append(title)
        for block in blocks:
            if isinstance(block, Table):
                shown += [cell for row in block.rows for cell in row]
            elif isinstance(block, tuple):
                shown += [words for point in block for words in (point.text, point.code)]
    assert "gradient of <pooler>.bias, step 3, seed 2" in " ".join(shown)
    assert [it for it in shown if " ".join(with_minus_signs(it).split()) not in page.words] == []


def test_nothing_is_fetched_nothing_runs_and_links_lead_to_scripts_beside_the_page(page):
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object"}
    for tag, attributes in page.elements:
        assert not set(attributes) & {"src", "srcset", "xlink:href", "action"}, tag
        assert not [name for name in attributes if name.startswith("on")], tag
    assert not re.search(r"https?://|url\(|@import", page.html)
    links = [attributes["href"] for attributes in page.named("a")]
    assert links == ["repros/broken--1/repro.py"]


def test_text_from_outside_cannot_inject(verdict, observations):
    candidate = verdict.candidates[0]
    outside = replace(
        verdict,
        workload=HOSTILE,
        decision=Decision(HOSTILE, 1, HOSTILE),
        candidates=(
            replace(
                candidate,
                arm=HOSTILE,
                reasons=tuple(replace(it, sentence=HOSTILE) for it in candidate.reasons),
                confounds=(replace(candidate.confounds[0], name=HOSTILE, baseline=HOSTILE),),
            ),
        ),
    )
    arm, job = observations.arms[0], observations.replicates[0]
    ignored = replace(job, arm=HOSTILE, job=HOSTILE, cache_ignored=HOSTILE)
    observed = replace(
        observations,
        arms=(replace(arm, arm=HOSTILE, environment={HOSTILE: HOSTILE}, proof={HOSTILE: HOSTILE}),),
        replicates=(ignored, replace(ignored, problem=HOSTILE)),
    )
    page = Page(render_html(outside, observed))
    assert not {tag for tag, _ in page.elements} & {"script", "img"}
    assert f"seed 1, 1: compile cache: {HOSTILE}" in page.words
    markdown = render_markdown(outside, observed).replace("\\<", "")
    assert "<script" not in markdown
    assert "<img" not in markdown


def test_a_run_without_an_accelerator_has_no_word_of_gpus(verdict, observations):
    machine = {"accelerator": "none", "cuda": "none", "float32_matmul_gpu": "ieee", "cpu": "x"}
    for accelerator, expected in (("none", False), ("A10G", True)):
        own = {**machine, "accelerator": accelerator}
        arms = tuple(replace(arm, environment=own) for arm in observations.arms)
        page = render_html(verdict, replace(observations, arms=arms))
        assert bool(re.search(r"gpu|cuda|accelerator", page, re.IGNORECASE)) is expected


def test_what_there_is_nothing_of_is_left_out(verdict, observations):
    alone = replace(observations.arms[0], environment={}, proof={})
    nothing = replace(observations, arms=(alone,), replicates=observations.replicates[-1:])
    lost = replace(
        verdict,
        decision=Decision("none", 1, "Release nothing."),
        baseline=replace(verdict.baseline, sound=False, noise_floor=()),
        candidates=(replace(verdict.candidates[1], parity=None),),
        cost=None,
    )
    page = Page(render_html(lost, nothing))
    assert page.named("svg") == []
    assert "not valid" in page.words
    for words in ("Cost and savings", "Padding", "Arms left out"):
        assert words not in page.words
    left_out = replace(nothing, left_out=("compiled", "larger-batch"))
    assert "Arms left out of this execution and not judged: compiled" in render_html(lost, left_out)


@pytest.mark.parametrize(
    ("changes", "advised"),
    [
        ({}, True),
        ({"padding": "buckets"}, False),
        ({"tokens": 7_050, "positions": PaddedPositions(10_000, 7_100, 7_080)}, False),
        ({"positions": PaddedPositions(10_000, 9_200, 7_000)}, False),
    ],
)
def test_buckets_are_advised_where_there_is_something_to_gain(
    verdict, observations, changes, advised
):
    arm = replace(observations.arms[0], padding=replace(PADDED, **changes))
    page = Page(render_html(verdict, replace(observations, arms=(arm, *observations.arms[1:]))))
    assert ("baseline: 70% of the 10,000 positions" in page.words) is advised
    assert ("would compute 58% fewer, with steps of 16, 64 positions" in page.words) is advised


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
    losses = re.findall(r'id="loss-\d+-title">Training loss of ([\w-]+)<', page.html)
    assert losses == ["baseline", "larger-batch", "broken"]


def forest(html: str, name: str) -> ET.Element:
    """The chart of this name."""
    figure = html[html.rindex("<svg", 0, html.index(f'id="forest-{name}-title"')) :]
    return ET.fromstring(figure[: figure.index("</svg>") + 6])  # noqa: S314 - our own


def drawn(chart: ET.Element, kind: str) -> list[ET.Element]:
    return [item for item in chart.iter() if kind in (item.get("class") or "").split()]


def bar(chart: ET.Element) -> tuple[float, float]:
    """From where to where the first interval goes."""
    line = next(it for it in drawn(chart, "interval") if it.get("y1") == it.get("y2"))
    return float(line.get("x1")), float(line.get("x2"))


def with_speed(verdict: Verdict, **changes: object) -> Verdict:
    """The verdict on its first candidate alone, with another speed."""
    first = verdict.candidates[0]
    return replace(verdict, candidates=(replace(first, speed=replace(first.speed, **changes)),))


def test_an_interval_is_drawn_at_its_numbers(page):
    """Better lies to the right, so a margin below the interval is left of all of it."""
    chart = forest(page.html, "accuracy")
    limit = float(drawn(chart, "limit")[0].get("x1"))
    zero = float(drawn(chart, "reference")[0].get("x1"))
    left, right = bar(chart)
    assert limit < left < right < zero
    # Positions are proportional to numbers: -0.71 and -0.05 points between -1.00 and 0.
    assert (left - limit) / (zero - limit) == pytest.approx(0.29, abs=0.005)
    assert (right - limit) / (zero - limit) == pytest.approx(0.95, abs=0.005)


def test_every_candidate_has_its_row_in_every_picture_in_its_own_colour(page):
    for name in ("accuracy", "log_loss", "perplexity", "speed", "parity"):
        chart = forest(page.html, name)
        colours = [item.get("class") for item in drawn(chart, "swatch")]
        assert colours == ["swatch arm-1", "swatch arm-2"]
        assert {"larger-batch", "broken"} <= {item.text for item in drawn(chart, "number")}


def test_a_limit_that_no_speed_up_reaches_shades_the_whole_row(verdict, observations):
    hopeless = with_speed(verdict, required_speedup=None, outcome=Outcome.FAIL)
    chart = forest(render_html(hopeless, observations), "speed")
    assert drawn(chart, "limit") == []
    assert "no speed-up is enough" in "".join(chart.itertext())
    (zone,) = drawn(chart, "zone-bad")
    assert float(zone.get("x")) + float(zone.get("width")) == pytest.approx(432.0)


@pytest.mark.parametrize(
    "speedup",
    [Interval(1.0, 1.0, 1.0), Interval(1.2, 1.2, 1.2), Interval(0.01, 0.001, 90.0)],
)
def test_degenerate_intervals_are_drawn_within_the_chart(verdict, observations, speedup):
    run = replace(verdict.candidates[0].speed.run, break_even_steps=None, break_even_minutes=None)
    page = Page(render_html(with_speed(verdict, speedup=speedup, run=run), observations))
    assert "never" in page.words
    for line in page.named("line"):
        assert 0.0 <= float(line["x1"] or "nan") <= 440.0


def test_an_interval_far_wider_than_what_matters_runs_out_of_the_picture(verdict, observations):
    first = verdict.candidates[0]
    speed = replace(first.speed, speedup=Interval(1.4, 0.001, 90.0))
    wild = replace(first, arm="wild", speed=speed)
    chart = forest(render_html(replace(verdict, candidates=(first, wild)), observations), "speed")
    assert len(drawn(chart, "beyond")) == 2  # an arrow to each side
    left, right = bar(chart)
    assert right - left > 10.0  # the other candidate's interval can still be read


def test_what_parity_cannot_tell_is_no_pass(verdict, observations):
    silent = ParityJudgement(ParityAnswer.CANNOT_TELL, "Parity cannot tell: why.", seed=1)
    candidate = replace(verdict.candidates[0], parity=silent)
    shown = render_html(replace(verdict, candidates=(candidate,)), observations)
    assert "Parity cannot tell: why." in shown
    assert 'aria-label="inconclusive">?</span> cannot tell' in shown
