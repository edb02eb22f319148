"""At a glance: each respect in which candidates were judged, and how it came out."""

from __future__ import annotations

import dataclasses

from compilegate.gate.findings import Code, Outcome, failure
from compilegate.report.summary import Cell, glance

NOTHING = Cell("\N{EN DASH}")


def lines_of(verdict) -> dict[str, tuple[Cell, ...]]:
    return {line.name: line.cells for line in glance(verdict)}


def test_what_was_judged_shows_how_it_came_out_beside_its_interval_and_limit(verdict):
    lines = lines_of(verdict)
    assert lines["Accuracy"][0] == Cell(
        "-0.38 points", "-0.71 to -0.05; margin -1.00", Outcome.PASS
    )
    assert lines["Log loss"][0].outcome is Outcome.INCONCLUSIVE
    assert lines["Perplexity"][0] == Cell("+0.0274", "-0.0128 to +0.0676; watched", None)
    assert lines["Slices"][0] == Cell("1 of 1 inconclusive", "", Outcome.INCONCLUSIVE)
    assert lines["Parity"][0] == Cell("pass", "4.52 times eager's rounding; limit 20", Outcome.PASS)
    speed = lines["Speed-up"][0]
    assert (speed.outcome, speed.detail.partition("; ")[2]) == (
        Outcome.PASS,
        "required 1.20\N{MULTIPLICATION SIGN}",
    )


def test_a_candidate_that_could_not_be_compared_says_on_what_grounds(verdict):
    lines = lines_of(verdict)
    assert lines["Other grounds"] == (NOTHING, Cell("training failed", "", Outcome.FAIL))
    judged = {name for name, cells in lines.items() if cells[1] != NOTHING}
    assert judged == {"Parity", "Memory", "Other grounds"}


def test_a_fail_beside_good_numbers_is_seen(verdict):
    told = [
        failure(Code.CONFOUND_UNDECLARED, "torch differs."),
        failure(Code.EVIDENCE_CHANGED, "Seed 1: other columns."),
        failure(Code.EXAMPLES_MALFORMED, "Seed 2: two examples."),
    ]
    candidate = dataclasses.replace(verdict.candidates[0], reasons=tuple(told))
    lines = lines_of(dataclasses.replace(verdict, candidates=(candidate,)))
    assert lines["Other grounds"] == (Cell("confounds, evidence", "", Outcome.FAIL),)


def test_what_no_candidate_has_is_left_out(verdict):
    lines = lines_of(dataclasses.replace(verdict, candidates=verdict.candidates[1:]))
    assert list(lines) == ["Parity", "Memory", "Other grounds"]
