"""What the report says of the lengths of documents, and of what padding them costs."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree

import pytest

from compilegate.gate.observations import Observations
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import PaddedPositions, PaddingRecord
from compilegate.report import formats
from compilegate.report.charts import length_chart
from compilegate.report.markdown import render_markdown
from compilegate.report.page.verdict import render_html

WHOLE = PaddingRecord(
    padding="max",
    lengths=(64,),
    bucket_lengths=(16, 64),
    tokens=3_000,
    positions=PaddedPositions(max=10_000, buckets=4_200, longest=7_000),
    histogram_upto=(8, 16, 24, 32, 40, 48, 56, 60, 64),
    histogram_documents=(30, 0, 7, 1, 2, 3, 4, 0, 1_200),
)
BUCKETS = dataclasses.replace(WHOLE, padding="buckets", lengths=(16, 64))


@pytest.fixture
def padded(observations: Observations) -> Observations:
    """The baseline pads to one length, the first candidate to two."""
    first, second, *rest = observations.arms
    arms = (
        dataclasses.replace(first, padding=WHOLE),
        dataclasses.replace(second, padding=BUCKETS),
        *rest,
    )
    return dataclasses.replace(observations, arms=arms)


def test_a_row_says_how_an_arm_pads_what_that_costs_and_what_buckets_would(
    verdict: Verdict, padded: Observations
) -> None:
    text = render_markdown(verdict, padded)
    assert "| baseline | max | 64 | 10,000 | 70% | 4,200 (-58%) |" in text
    assert "| larger-batch | buckets | 16, 64 | 4,200 | 29% | – |" in text  # noqa: RUF001
    assert "- baseline: 70% of the positions that a step computes are padding: try" in text
    assert "| 1 to 16 | 30 |" in text
    assert "| 57 to 64 | 1,200 |" not in text  # nine bins are five rows
    assert "| 61 to 64 | 1,200 |" in text


def test_the_page_draws_the_lengths(verdict: Verdict, padded: Observations) -> None:
    page = render_html(verdict, padded)
    assert "Lengths of documents, and padding" in page
    assert "4,200 (\N{MINUS SIGN}58%)" in page
    chart = length_chart(padded, title="Lengths", identity="lengths")
    assert chart is not None
    root = ElementTree.fromstring(str(chart))  # noqa: S314 - our own
    assert len(root.findall(".//*[@class='bin']")) == len(WHOLE.histogram_upto)
    assert "1,247 documents of up to 64 tokens; buckets end at 16, 64" in chart


def test_nothing_is_said_where_no_job_recorded_lengths(
    verdict: Verdict, observations: Observations
) -> None:
    assert length_chart(observations, title="Lengths", identity="lengths") is None
    assert "padding" not in render_markdown(verdict, observations).lower()
    assert 'id="padding"' not in render_html(verdict, observations)


def test_steps_that_each_have_a_length_of_their_own_are_called_so() -> None:
    longest = dataclasses.replace(WHOLE, padding="longest", lengths=())
    assert formats.padding_cells(longest) == (
        "longest",
        "each its own",
        "7,000",
        "57%",
        "4,200 (-40%)",
    )


def test_buckets_are_advised_where_there_is_something_to_gain() -> None:
    advice = formats.buckets_advised(WHOLE)
    assert advice is not None
    assert "70%" in advice
    assert "58%" in advice
    for changes in (
        {"padding": "buckets"},
        {"tokens": 7_050, "positions": PaddedPositions(10_000, 7_100, 7_080)},
        {"positions": PaddedPositions(10_000, 9_200, 7_000)},
    ):
        assert formats.buckets_advised(dataclasses.replace(WHOLE, **changes)) is None
