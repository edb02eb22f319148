"""The page of an execution that came to no verdict."""

from __future__ import annotations

from compilegate.report import (
    ExecutionFacts,
    StepFacts,
    render_execution_html,
    render_execution_markdown,
)

FAILED = StepFacts(
    name="train",
    type="Training",
    status="Failed",
    seconds=12.34,
    cached=False,
    metrics={"loss": 0.25},
    failure=("exit code 1; log: x/log.txt", "  <script>alert(1)</script>"),
)
CACHED = StepFacts("prepare", "Processing", "Succeeded", 0.0, True, {}, ())
FACTS = ExecutionFacts("abc", "topics", "Failed", "train: exit code 1", [CACHED, FAILED])


def test_the_page_says_what_became_of_the_execution_and_of_each_step() -> None:
    for text in (render_execution_html(FACTS), render_execution_markdown(FACTS)):
        assert "Execution abc of topics: Failed: train: exit code 1" in text
        assert "12.3" in text
        assert "cache" in text
        assert "loss 0.25" in text
        assert "x/log.txt" in text


def test_what_a_job_printed_cannot_become_part_of_the_page() -> None:
    page = render_execution_html(FACTS)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "      <script>" in render_execution_markdown(FACTS)


def test_the_page_needs_nothing_from_anywhere() -> None:
    page = render_execution_html(FACTS)
    for reach in ("http://", "https://", "src=", "@import", "<link"):
        assert reach not in page
