"""The page of an execution that came to no verdict: the reason and the remedy come first."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from compilegate.report import (
    About,
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
    failure="exit code 1",
    last_lines=(
        'File "/a/long/path/of/a/sandbox/opt/ml/code/train.py", line 97, in <module>',
        "    <script>alert(1)</script>",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12 GiB",
    ),
    log="/a/long/path/log.txt",
)
CACHED = StepFacts("prepare", "Processing", "Succeeded", 0.0, True, {})
FACTS = ExecutionFacts(
    pipeline="topics",
    status="Failed",
    failure=None,
    steps=[CACHED, FAILED, StepFacts("gate", "Processing", "NotExecuted", 0.0, False, {})],
    about=About(execution_id="abc", started=1_795_338_033.0, command="compilegate run topics"),
    resume="compilegate run --resume abc",
)


@pytest.mark.parametrize("render", [render_execution_html, render_execution_markdown])
def test_reason_and_remedy_come_before_any_path_and_every_step_is_there(render) -> None:
    text = render(FACTS)
    places = [text.index(it) for it in ("torch.OutOfMemoryError", "batch_size", "log.txt")]
    assert places == sorted(places)
    for shown in (FACTS.resume, "12.3 s", "from the cache", "loss 0.25", "22 November 2026"):
        assert shown in text, shown
    assert not re.search(r"https?://|src=|@import|<link", text)


@pytest.mark.parametrize(
    ("failure", "last_lines", "headline", "remedy"),
    [
        ("exit code 1", ("ModuleNotFoundError: No module named 'timm'",), "timm", "requirements"),
        ("exit code 2", ("error: --lr is -1",), "train failed: --lr is -1", "last lines below"),
        ("killed by signal 9 (SIGKILL)", ("epoch 1",), "SIGKILL", "memory"),
        ("the job ran longer than MaxRuntimeInSeconds (60 s)", (), "60 s", "max_runtime_seconds"),
        ("exit code 1: Seed 2: the loss is nan in step 4", (), "nan in step 4", "learning_rate"),
        ("exit code 3", ("bye",), "train failed: exit code 3", "last lines below"),
    ],
)
def test_the_headline_is_the_line_that_says_what_went_wrong(
    failure: str, last_lines: tuple[str, ...], headline: str, remedy: str
) -> None:
    step = replace(FAILED, failure=failure, last_lines=last_lines)
    assert headline in replace(FACTS, steps=[step]).headline
    assert remedy in step.remedy


def test_an_execution_that_was_stopped_says_how_to_continue() -> None:
    page = render_execution_html(replace(FACTS, status="Stopped", steps=[CACHED]))
    assert ("<h1>topics: Stopped</h1>" in page, FACTS.resume in page) == (True, True)


def test_what_a_job_printed_cannot_become_part_of_the_page() -> None:
    hostile = replace(
        FACTS,
        pipeline="<script>a</script>",
        resume="<script>b</script>",
        about=About(execution_id="<script>c</script>", command="`<script>d</script>`"),
        steps=[replace(FAILED, last_lines=("ValueError: `<script>e</script>`",)), FAILED],
    )
    page = render_execution_html(hostile)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\n<script" not in render_execution_markdown(hostile)
    assert "\n          <script>" in render_execution_markdown(hostile)  # indented, so as it is
