"""The HTML page: self-contained, escaped, and true to the verdict's numbers."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from compilegate.gate.findings import Outcome
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import Decision, Interval, ParityAnswer, ParityJudgement
from compilegate.report import About, render_html, render_markdown, summary_lines

VOID = {"meta", "br"}
HERE = "repros/"
"""Where links may lead: to scripts beside the page."""
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


@pytest.mark.parametrize(
    ("registers", "models", "said"),
    [
        ("baseline", (), "the model of baseline, seed 1."),
        ("baseline", ("news/3, Approved",), "news/3, Approved: the model of baseline, seed 1."),
        ("nothing-new", (), "seed 1, is identical to the registered one."),
    ],
)
def test_the_registered_model_stands_below_it(verdict, observations, registers, models, said):
    decision = dataclasses.replace(verdict.decision, registers=registers)
    made = dataclasses.replace(verdict, decision=decision)
    about = About(models=models)
    page = Page(render_html(made, observations, about))
    assert said in page.words
    assert page.words.index(said) < page.words.index("Log loss")
    assert said in render_markdown(made, observations, about)


def test_a_reason_is_never_cut_off(verdict, observations):
    long = "The compiled arithmetic differs: " + "because " * 100 + "of that."
    first = verdict.candidates[0]
    reason = dataclasses.replace(first.reasons[0], sentence=long)
    candidate = dataclasses.replace(first, reasons=(reason,))
    told = dataclasses.replace(verdict, candidates=(candidate,))
    assert Page(render_html(told, observations)).words.count(long) == 2  # on its card, and below
    assert f"  {long}" in summary_lines(told)


def test_what_decided_comes_first_and_metadata_last_and_folded(page):
    titles = re.findall(r'id="forest-(\w+)-title"', page.html)
    assert titles[:2] == ["log_loss", "parity"]  # what is open, then what passed
    words = page.html
    assert words.index("What to do") < words.index("<details>") < words.index("This execution")


def test_a_run_without_an_accelerator_has_no_word_of_gpus(verdict, observations):
    machines = {"accelerator": "none", "cuda": "none", "float32_matmul_gpu": "ieee", "cpu": "x"}
    arms = tuple(dataclasses.replace(arm, environment=machines) for arm in observations.arms)
    page = render_html(verdict, dataclasses.replace(observations, arms=arms))
    assert not re.search(r"gpu|cuda|accelerator", page, re.IGNORECASE)
    arms = tuple(
        dataclasses.replace(arm, environment={**machines, "accelerator": "A10G"})
        for arm in observations.arms
    )
    page = render_html(verdict, dataclasses.replace(observations, arms=arms))
    assert "float32_matmul_gpu" in page


def test_nothing_is_fetched_and_nothing_runs(page):
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object"}
    for tag, attributes in page.elements:
        assert not set(attributes) & {"src", "srcset", "xlink:href", "action"}, tag
        assert (attributes.get("href") or HERE).startswith(HERE), tag
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
        "1.2 GB against 612 MB (+97.7%), of the process; at most +100% is allowed",
        "Candidate not measured, baseline 612 MB: job b did not measure <it>",
        "80 pairs of alternating blocks, in 2 jobs",
        "1.48× (66.3 ms against 98.1 ms); the rest is 22% of a step",  # noqa: RUF001
        "1.29× (0.97× to 1.71×)",  # noqa: RUF001
        "In the backward pass, <conv> departs first.",
        "The loader is <slow>: give it two workers.",
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


def test_the_script_that_shows_wrong_arithmetic_is_linked_beside_the_page(page):
    links = [attributes["href"] for tag, attributes in page.elements if "href" in attributes]
    assert links == ["repros/broken--1/repro.py"]


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
    assert "<h3>Parity: cannot tell</h3>" in shown
    assert '<span class="mark inconclusive" role="img" aria-label="inconclusive">?' in shown


def test_every_chart_says_in_words_what_it_shows(page):
    charts = page.named("svg")
    # Three metrics, speed and parity; the loss of three arms.
    assert len(charts) == 5 + 3
    identities = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
    for attributes in charts:
        assert attributes["role"] in {"img", "group"}
        assert set((attributes["aria-labelledby"] or "").split()) <= set(identities)
    # Whatever the keyboard reaches in a chart has a name.
    assert all(
        attributes.get("aria-label")
        for tag, attributes in page.elements
        if tag == "g" and "tabindex" in attributes
    )


def forest(html: str, name: str) -> ET.Element:
    """The chart at a glance of this name."""
    figure = html[html.rindex("<svg", 0, html.index(f'id="forest-{name}-title"')) :]
    return ET.fromstring(figure[: figure.index("</svg>") + 6])  # noqa: S314 - our own


def drawn(chart: ET.Element, kind: str) -> list[ET.Element]:
    return [item for item in chart.iter() if kind in (item.get("class") or "").split()]


def test_an_interval_is_drawn_at_its_numbers(page):
    """Better lies to the right, so a margin below the interval is left of all of it."""
    chart = forest(page.html, "accuracy")
    limit = float(drawn(chart, "limit")[0].get("x1"))
    zero = float(drawn(chart, "reference")[0].get("x1"))
    bar = next(item for item in drawn(chart, "interval") if item.get("y1") == item.get("y2"))
    left, right = float(bar.get("x1")), float(bar.get("x2"))
    assert limit < left < right < zero
    # Positions are proportional to numbers: -0.71 and -0.05 points between -1.00 and 0.
    assert (left - limit) / (zero - limit) == pytest.approx(0.29, abs=0.005)
    assert (right - limit) / (zero - limit) == pytest.approx(0.95, abs=0.005)


def test_every_candidate_has_its_row_in_every_picture_in_its_own_colour(page):
    for name in ("accuracy", "log_loss", "perplexity", "speed", "parity"):
        chart = forest(page.html, name)
        assert [item.get("class") for item in drawn(chart, "swatch")] == [
            "swatch arm-1",
            "swatch arm-2",
        ]
        words = "".join(chart.itertext())
        assert "larger-batch" in words
        assert "broken" in words


def test_a_limit_that_no_speed_up_reaches_shades_the_whole_row(verdict, observations):
    candidate = verdict.candidates[0]
    speed = dataclasses.replace(candidate.speed, required_speedup=None, outcome=Outcome.FAIL)
    hopeless = dataclasses.replace(candidate, speed=speed)
    page = render_html(dataclasses.replace(verdict, candidates=(hopeless,)), observations)
    chart = forest(page, "speed")
    assert drawn(chart, "limit") == []
    assert "no speed-up is enough" in "".join(chart.itertext())
    (zone,) = drawn(chart, "zone-bad")
    assert float(zone.get("x")) + float(zone.get("width")) == pytest.approx(432.0)


def test_one_threshold_is_named_and_it_is_the_one_that_decides(verdict, observations):
    candidate = verdict.candidates[0]
    speed = dataclasses.replace(candidate.speed, required_speedup=1.46, outcome=Outcome.FAIL)
    dear = dataclasses.replace(candidate, speed=speed)
    page = Page(render_html(dataclasses.replace(verdict, candidates=(dear,)), observations))
    assert "1.46×, to repay cold compilation within 1,368 steps" in page.words  # noqa: RUF001
    assert "required 1.20" not in page.words


def test_an_interval_far_wider_than_what_matters_runs_out_of_the_picture(verdict, observations):
    first, second = verdict.candidates[0], verdict.candidates[0]
    wild = dataclasses.replace(
        second,
        arm="wild",
        speed=dataclasses.replace(second.speed, speedup=Interval(1.4, 0.001, 90.0)),
    )
    page = render_html(dataclasses.replace(verdict, candidates=(first, wild)), observations)
    chart = forest(page, "speed")
    assert len(drawn(chart, "beyond")) == 2  # an arrow to each side
    width = next(
        float(item.get("x2")) - float(item.get("x1"))
        for item in drawn(chart, "interval")
        if item.get("y1") == item.get("y2")
    )
    assert width > 10.0  # the other candidate's interval can still be read


def test_each_arms_loss_has_a_chart_of_its_own(page):
    losses = re.findall(r'id="loss-\d+-title">Training loss of ([\w-]+)<', page.html)
    assert losses == ["baseline", "larger-batch", "broken"]


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
        candidates=(dataclasses.replace(verdict.candidates[1], parity=None),),
    )
    page = Page(render_html(lost, nothing))
    assert page.named("svg") == []
    assert "Its evidence is not valid." in page.words
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
    assert not any("..." in line for line in lines)
    many = dataclasses.replace(verdict, candidates=verdict.candidates * 20)
    assert len(summary_lines(many)) == 15
    assert all(line.isprintable() for line in summary_lines(many))


def test_a_compiler_with_several_backends_is_named_with_the_arms(verdict, observations):
    baseline, first, *others = observations.arms
    told = dataclasses.replace(first, compiler="torch-compile", proof={"backend": "aot_eager"})
    alone = dataclasses.replace(baseline, compiler="inductor", proof={"backend": "inductor"})
    changed = dataclasses.replace(observations, arms=(alone, told, *others))
    page = render_html(verdict, changed)
    row = page[page.index(">compiler</th>") :]
    told = re.findall(r"<td[^>]*>([^<]+)</td>", row[: row.index("</tr>")])
    assert told == ["inductor", "torch-compile:aot_eager", "xla"]
