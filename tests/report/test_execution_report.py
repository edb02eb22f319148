"""The page of an execution that came to no verdict: the reason and the remedy come first."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.report import (
    About,
    ExecutionFacts,
    Span,
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
    failure="exit code 1",
    last_lines=(
        "Traceback (most recent call last):",
        '  File "/x/train.py", line 3, in <module>',
        "    <script>alert(1)</script>",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12 GiB",
    ),
    log="x/log.txt",
)
CACHED = StepFacts("prepare", "Processing", "Succeeded", 0.0, True, {})
NEXT = StepFacts("gate", "Processing", "NotExecuted", 0.0, False, {})
FACTS = ExecutionFacts(
    pipeline="topics",
    status="Failed",
    failure="train: exit code 1; log: x/log.txt",
    steps=[CACHED, FAILED, NEXT],
    about=About(
        execution_id="abc",
        started=1_795_338_033.0,
        seconds=13.0,
        command="compilegate run topics",
        spans=(Span("train", "small", 0.5, 12.34, "failed", failed=True),),
    ),
    resume="compilegate run --resume abc",
)


def test_the_page_says_what_became_of_the_execution_and_of_each_step() -> None:
    for text in (render_execution_html(FACTS), render_execution_markdown(FACTS)):
        assert "train failed: torch.OutOfMemoryError: CUDA out of memory" in text
        assert "It needs more memory than there is" in text
        assert FACTS.resume in text
        assert "12.3" in text
        assert "cache" in text
        assert "loss 0.25" in text
        assert "x/log.txt" in text
        assert "22 November 2026" in text


def test_the_reason_and_the_remedy_come_before_any_path() -> None:
    page = render_execution_html(FACTS)
    places = [page.index(text) for text in ("<h1>train failed", "What to do", "x/log.txt")]
    assert places == sorted(places)
    assert "log.txt" not in page[: page.index("</header>")]


@pytest.mark.parametrize(
    ("failure", "last_lines", "headline", "remedy"),
    [
        ("exit code 1", ("ModuleNotFoundError: No module named 'timm'",), "timm", "requirements"),
        ("exit code 2", ("error: --lr is -1",), "train failed: --lr is -1", "last lines below"),
        ("killed by signal 9 (SIGKILL)", ("epoch 1",), "SIGKILL", "more memory"),
        ("the job ran longer than MaxRuntimeInSeconds (60 s)", (), "60 s", "max_runtime_seconds"),
        ("exit code 1: Seed 2: the loss is nan in step 4", (), "nan in step 4", "learning_rate"),
        ("exit code 3", ("bye",), "train failed: exit code 3", "last lines below"),
    ],
)
def test_the_headline_is_the_line_that_says_what_went_wrong(
    failure: str, last_lines: tuple[str, ...], headline: str, remedy: str
) -> None:
    step = dataclasses.replace(FAILED, failure=failure, last_lines=last_lines)
    facts = dataclasses.replace(FACTS, steps=[step])
    assert headline in facts.headline
    assert remedy in facts.failed[0].remedy


def test_an_execution_that_was_stopped_says_how_to_go_on() -> None:
    stopped = dataclasses.replace(FACTS, status="Stopped", failure=None, steps=[CACHED, NEXT])
    page = render_execution_html(stopped)
    assert "<h1>topics: Stopped</h1>" in page
    assert FACTS.resume in page


def test_what_a_job_printed_cannot_become_part_of_the_page() -> None:
    hostile = dataclasses.replace(
        FACTS,
        pipeline="<script>a</script>",
        resume="<script>b</script>",
        about=About(execution_id="<script>c</script>", command="`<script>d</script>`"),
        steps=[dataclasses.replace(FAILED, last_lines=("ValueError: `<script>e</script>`",))],
    )
    for facts in (FACTS, hostile):
        assert "<script" not in render_execution_html(facts)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in render_execution_html(FACTS)
    assert "          <script>" in render_execution_markdown(FACTS)
    assert "\n<script" not in render_execution_markdown(hostile)


def test_the_page_needs_nothing_from_anywhere() -> None:
    page = render_execution_html(FACTS)
    for reach in ("http://", "https://", "src=", "@import", "<link"):
        assert reach not in page
