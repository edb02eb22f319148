"""What the report says of the lengths of documents, and of what padding them costs."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.gate.observations import Observations
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import PaddedPositions, PaddingRecord
from compilegate.report import render_html, render_markdown
from compilegate.report.details import buckets_advised, padding_cells

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


def test_nothing_is_said_where_no_job_recorded_lengths(
    verdict: Verdict, observations: Observations, padded: Observations
) -> None:
    assert "Lengths of documents, and padding" in render_html(verdict, padded)
    for text in (render_markdown(verdict, observations), render_html(verdict, observations)):
        assert "Lengths of documents" not in text


def test_steps_that_each_have_a_length_of_their_own_are_called_so() -> None:
    longest = dataclasses.replace(WHOLE, padding="longest", lengths=())
    assert padding_cells(longest) == (
        "longest",
        "each its own",
        "7,000",
        "57%",
        "4,200 (-40%)",
    )


def test_buckets_are_advised_where_there_is_something_to_gain() -> None:
    advice = buckets_advised(WHOLE)
    assert advice is not None
    assert "70%" in advice
    assert "58%" in advice
    for changes in (
        {"padding": "buckets"},
        {"tokens": 7_050, "positions": PaddedPositions(10_000, 7_100, 7_080)},
        {"positions": PaddedPositions(10_000, 9_200, 7_000)},
    ):
        assert buckets_advised(dataclasses.replace(WHOLE, **changes)) is None
