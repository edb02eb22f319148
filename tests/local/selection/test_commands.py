"""--command STEP=COMMAND: what stands for a check, a callback or an EMR step."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus
from compilegate.local import RefusedDefinitionError

pytestmark = pytest.mark.slow

CALLBACK = {
    "Name": "ask",
    "Type": "Callback",
    "Arguments": {"who": "anna"},
    "SqsQueueUrl": "https://sqs.example/queue",
    "OutputParameters": [{"OutputName": "approved", "OutputType": "Boolean"}],
}
ANSWER = {"Get": "Steps.ask.OutputParameters['approved']"}
COMMAND = """
grep -q anna "$COMPILEGATE_REQUEST" && grep -q SqsQueueUrl "$COMPILEGATE_REQUEST" &&
mkdir -p "$COMPILEGATE_S3/bucket" && echo x > "$COMPILEGATE_S3/bucket/said" &&
echo '{"OutputParameters": {"approved": true}}' > "$COMPILEGATE_RESULT"
"""


def test_a_command_answers_a_callback(bench: Any) -> None:
    result = bench.run(
        CALLBACK,
        bench.condition("is-it", bench.equals(ANSWER, True), then=[bench.processing("yes")]),
        commands={"ask": COMMAND},
    )
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert str(result.steps["yes"].status) == "Succeeded"
    assert bench.store.read("s3://bucket/said") == b"x\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("exit 7", "the command ended with code 7"),
        ("true", "the function returned None"),
        ('echo 3 > "$COMPILEGATE_RESULT"', "expected an object"),
        ('echo "{" > "$COMPILEGATE_RESULT"', "cannot be read"),
    ],
)
def test_a_command_that_does_not_answer_fails_its_step(bench: Any, command: str, told: str) -> None:
    result = bench.run(CALLBACK, commands={"ask": command})
    assert result.status is ExecutionStatus.FAILED
    assert told in result.failure


@pytest.mark.parametrize("kind", ["Callback", "QualityCheck", "ClarifyCheck", "EMR"])
def test_such_a_step_is_refused_with_what_to_do(bench: Any, kind: str) -> None:
    with pytest.raises(RefusedDefinitionError, match=r"--command ask=COMMAND.*--skip ask.*--stub"):
        bench.run({"Name": "ask", "Type": kind, "Arguments": {}})


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        ({"b": "true"}, "--command: 'b' is not a step"),
        ({"no": "true"}, "no is a Fail step, which no command can stand for"),
    ],
)
def test_a_command_for_what_it_cannot_stand_for_is_refused(
    bench: Any, commands: Any, told: str
) -> None:
    with pytest.raises(RefusedDefinitionError, match=told):
        bench.run(bench.processing("a"), bench.fail("no"), commands=commands)


def test_a_command_may_stand_for_any_step_even_one_that_nobody_knows(bench: Any) -> None:
    foreign = {"Name": "beam", "Type": "Teleport", "Arguments": {}, "Speed": 3}
    said = {"Get": "Steps.beam.Place"}
    result = bench.run(
        foreign,
        bench.condition("is-it", bench.equals(said, "there"), then=[bench.processing("yes")]),
        commands={"beam": """echo '{"Place": "there"}' > "$COMPILEGATE_RESULT" """},
    )
    assert str(result.steps["yes"].status) == "Succeeded", result.failure
