"""Arms that an execution goes without are named, so that nobody takes the rest for the whole."""

from __future__ import annotations

from dataclasses import replace

from compilegate.gate.observations import Observations
from compilegate.report import render_html, render_markdown

SENTENCE = "Arms left out of this execution and not judged: compiled, larger-batch."


def test_both_reports_name_them(verdict, observations):
    left_out = replace(observations, left_out=("compiled", "larger-batch"))
    kept = Observations.from_json(left_out.to_json())
    assert SENTENCE in render_markdown(verdict, kept)
    assert SENTENCE in render_html(verdict, kept)


def test_a_whole_execution_has_no_such_line(verdict, observations):
    assert "Arms left out" not in render_markdown(verdict, observations)
    assert "Arms left out" not in render_html(verdict, observations)
