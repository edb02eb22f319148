"""The HTML page: self-contained, escaped, and true to the verdict's numbers."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from compilegate.gate.judgements import Interval, ParityAnswer, ParityJudgement
from compilegate.gate.observations import Observations
from compilegate.gate.reasons import Outcome
from compilegate.gate.verdict import Decision
from compilegate.report import render_html, render_markdown, summary_lines

VOID = {"meta", "br"}
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>&{{7*7}}'


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


def test_the_decision_is_the_heading(page, verdict):
    assert [text for tag, text in page.texts if tag == "h1"] == [verdict.decision.sentence]


def test_nothing_is_fetched_and_nothing_runs(page):
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object"}
    for tag, attributes in page.elements:
        assert not set(attributes) & {"src", "href", "srcset", "xlink:href", "action"}, tag
        assert not [name for name in attributes if name.startswith("on")], tag
    assert "http://" not in page.html
    assert "https://" not in page.html
    assert "url(" not in page.html
    assert "@import" not in page.html


def test_the_page_has_every_number_of_the_verdict(page):
    for shown in (
        "94.33% against 94.71%",
        "\N{MINUS SIGN}0.38",
        "\N{MINUS SIGN}0.71",
        "\N{MINUS SIGN}0.05",
        "margin \N{MINUS SIGN}1.00",
        "0.2233 against 0.2011",
        "+0.0222",
        "\N{MINUS SIGN}0.0104",
        "+0.0548",
        "margin +0.0500",
        "1.37×",  # noqa: RUF001
        "1.31×",  # noqa: RUF001
        "1.43×",  # noqa: RUF001
        "657.9 against 480.2 samples/s",
        "797 steps, 79.8 s",
        "21.5 s",
        "0.34 points",
        "0.0127 nats",
        "1.2 GB",
        "declared by the workload",
        "about 5 seeds instead of 3",
        "+0.0274",
        "watched",
        "language = <de>",
        "93.12%",
        "91.04%",
        "\N{MINUS SIGN}2.08 points",
        "\N{MINUS SIGN}2.71 to \N{MINUS SIGN}1.45",
        "Any of 2 candidates may win",
        "4.52 times, limit 20 times",
        "gradient of <pooler>.bias, step 3, seed 2",
        "0.98 times",
        "4 steps, 26 of 27 tensors, in fp32",
        "the loss is nan in step 4",
    ):
        assert shown in page.words, shown


def test_every_reason_stands_in_words_with_its_code(page, verdict):
    reasons = [reason for candidate in verdict.candidates for reason in candidate.reasons]
    assert reasons
    for reason in reasons:
        assert reason.sentence in page.words
        assert str(reason.code) in page.words


def test_what_parity_cannot_tell_is_no_pass_on_the_page(verdict, observations):
    silent = ParityJudgement(ParityAnswer.CANNOT_TELL, "Parity cannot tell: why.", seed=1)
    candidate = dataclasses.replace(verdict.candidates[0], parity=silent)
    shown = render_html(dataclasses.replace(verdict, candidates=(candidate,)), observations)
    heading = shown[shown.index("<h3>Parity") :]
    badge = heading[: heading.index("</h3>")]
    assert 'class="badge inconclusive"' in badge
    assert "cannot tell" in badge


def test_every_chart_says_in_words_what_it_shows(page):
    charts = page.named("svg")
    assert len(charts) == 7  # three metrics, speed, break-even, loss, step times
    identities = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
    for attributes in charts:
        assert attributes["role"] == "img"
        assert set((attributes["aria-labelledby"] or "").split()) <= set(identities)


def test_an_interval_is_drawn_at_its_numbers(page):
    """Better lies to the right, so a margin below the interval is left of all of it."""
    figure = page.html[page.html.index('id="larger-batch-accuracy-title"') :]
    figure = figure[: figure.index("</svg>")]
    limit = float(re.search(r'<line x1="([\d.]+)"[^>]*class="limit"', figure).group(1))
    zero = float(re.search(r'<line x1="([\d.]+)"[^>]*class="reference"', figure).group(1))
    left, right = (
        float(value)
        for value in re.search(
            r'<line x1="([\d.]+)" y1="50" x2="([\d.]+)" y2="50"', figure
        ).groups()
    )
    assert limit < left < right < zero
    # Positions are proportional to numbers: -0.71 and -0.05 points between -1.00 and 0.
    assert (left - limit) / (zero - limit) == pytest.approx(0.29, abs=0.005)
    assert (right - limit) / (zero - limit) == pytest.approx(0.95, abs=0.005)


def test_a_limit_that_no_speed_up_reaches_shades_the_whole_chart(verdict, observations):
    candidate = verdict.candidates[0]
    speed = dataclasses.replace(candidate.speed, required_speedup=None, outcome=Outcome.FAIL)
    hopeless = dataclasses.replace(candidate, speed=speed)
    page = render_html(dataclasses.replace(verdict, candidates=(hopeless,)), observations)
    figure = page[page.index('id="larger-batch-speed-title"') :]
    figure = figure[: figure.index("</svg>")]
    assert 'class="limit"' not in figure
    assert "no speed-up is enough" in figure
    zone = re.search(r'<rect x="([\d.]+)" [^>]*width="([\d.]+)"[^>]*class="zone-bad"', figure)
    assert float(zone.group(1)) + float(zone.group(2)) == pytest.approx(432.0)


def test_text_from_outside_cannot_inject(verdict, observations):
    outside = dataclasses.replace(
        verdict,
        workload=HOSTILE,
        decision=Decision(HOSTILE, 1, HOSTILE),
        candidates=tuple(
            dataclasses.replace(
                candidate,
                arm=HOSTILE,
                reasons=tuple(
                    dataclasses.replace(reason, sentence=HOSTILE) for reason in candidate.reasons
                ),
                confounds=tuple(
                    dataclasses.replace(item, name=HOSTILE, baseline=HOSTILE, candidate=HOSTILE)
                    for item in candidate.confounds
                ),
            )
            for candidate in verdict.candidates[:1]
        ),
    )
    observed = Observations(
        workload=HOSTILE,
        baseline="baseline",
        arms=tuple(
            dataclasses.replace(
                arm, arm=HOSTILE, environment={HOSTILE: HOSTILE}, proof={HOSTILE: HOSTILE}
            )
            for arm in observations.arms[:1]
        ),
        replicates=tuple(
            dataclasses.replace(item, arm=HOSTILE, job=HOSTILE, problem=problem)
            for item, problem in zip(observations.replicates[:2], (None, HOSTILE), strict=True)
        ),
    )
    page = Page(render_html(outside, observed))
    assert not {tag for tag, _ in page.elements} & {"script", "img"}
    assert HOSTILE in page.words
    markdown = render_markdown(outside, observed)
    assert "<script" not in markdown.replace("\\<", "")
    assert "<img" not in markdown.replace("\\<", "")


def test_a_compile_cache_that_was_not_used_is_named_with_the_reason(verdict, observations):
    first, *others = observations.replicates
    reason = f"a.tar was ignored: it is damaged: {HOSTILE} is missing."
    ignoring = dataclasses.replace(first, compile_cache="ignored", cache_ignored=reason)
    observed = dataclasses.replace(observations, replicates=(ignoring, *others))
    page = Page(render_html(verdict, observed))
    assert f"Compile cache of baseline, seed 1: {reason}" in page.words


def test_a_page_can_be_made_of_an_execution_that_left_nothing(verdict, observations):
    nothing = dataclasses.replace(
        observations,
        arms=tuple(dataclasses.replace(arm, environment={}, proof={}) for arm in observations.arms),
        replicates=observations.replicates[-1:],
    )
    lost = dataclasses.replace(
        verdict,
        decision=Decision("none", 1, "Release nothing."),
        baseline=dataclasses.replace(verdict.baseline, sound=False, noise_floor=()),
        candidates=verdict.candidates[1:],
    )
    page = Page(render_html(lost, nothing))
    assert page.named("svg") == []
    assert "Its evidence is not sound." in page.words
    assert "Release nothing." in render_markdown(lost, nothing)


@pytest.mark.parametrize(
    "speedup",
    [Interval(1.0, 1.0, 1.0), Interval(1.2, 1.2, 1.2), Interval(0.01, 0.001, 90.0)],
)
def test_degenerate_intervals_are_drawn_within_the_chart(verdict, observations, speedup):
    candidate = verdict.candidates[0]
    speed = dataclasses.replace(
        candidate.speed,
        speedup=speedup,
        run=dataclasses.replace(
            candidate.speed.run, break_even_steps=None, break_even_minutes=None
        ),
        candidate_samples_per_second=candidate.speed.baseline_samples_per_second,
    )
    changed = dataclasses.replace(
        verdict, candidates=(dataclasses.replace(candidate, speed=speed),)
    )
    page = Page(render_html(changed, observations))
    assert "never" in page.words
    for line in page.named("line"):
        assert 0.0 <= float(line["x1"] or "nan") <= 440.0


def test_the_summary_is_short_plain_text(verdict):
    lines = summary_lines(verdict)
    assert lines[0] == verdict.decision.sentence
    assert "larger-batch: inconclusive" in lines
    assert any("5 seeds instead of 3" in line for line in lines)
    assert len(lines) <= 15
    many = dataclasses.replace(verdict, candidates=verdict.candidates * 20)
    assert len(summary_lines(many)) == 15
    assert all(line.isprintable() and len(line) <= 300 for line in summary_lines(many))
