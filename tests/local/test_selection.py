"""--until, --skip and --command: a step that cannot run here does not block the others."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from compilegate.cli import main
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import (
    ImageSources,
    LocalExecutor,
    RefusedDefinitionError,
    Selection,
    list_groups,
)

pytestmark = pytest.mark.slow

HERE = ImageSources(patterns=(("*", "here"),))
FOREIGN = {"Name": "deploy", "Type": "Teleport", "Arguments": {}, "Beam": 3}
MODEL = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
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


def giving(result: str) -> str:
    """A command that gives this JSON."""
    return f"""echo '{result}' > "$COMPILEGATE_RESULT" """


def statuses(result: Any) -> dict[str, str]:
    return {name: str(step.status) for name, step in result.steps.items()}


def test_a_step_that_is_skipped_does_not_hold_up_one_that_only_waits_for_it(bench: Any) -> None:
    result = bench.run(
        FOREIGN,
        bench.processing("last", DependsOn=["deploy"]),
        selection=Selection(skip=("deploy",)),
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert statuses(result) == {"deploy": "NotExecuted", "last": "Succeeded"}


def test_what_reads_a_skipped_step_or_lies_on_its_branch_is_left_out_too(bench: Any) -> None:
    said = {"Get": "Steps.deploy.Url"}
    steps = (
        FOREIGN,
        bench.condition("is-it", bench.equals(said, "x"), then=[bench.processing("inside")]),
        bench.processing("after", DependsOn=["is-it"]),
    )
    result = bench.run(*steps, selection=Selection(skip=("deploy",)))
    assert statuses(result) == {
        "deploy": "NotExecuted",
        "is-it": "NotExecuted",
        "inside": "NotExecuted",
        "after": "Succeeded",
    }


def test_until_carries_out_what_a_step_needs_and_nothing_else(bench: Any) -> None:
    result = bench.run(
        bench.processing("first"),
        bench.processing("second", DependsOn=["first"]),
        bench.processing("aside"),
        FOREIGN,
        bench.processing("third", DependsOn=["second"]),
        selection=Selection(until=("second",)),
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert [name for name, status in statuses(result).items() if status == "Succeeded"] == [
        "first",
        "second",
    ]


@pytest.mark.parametrize("skipped", [True, False])
def test_a_model_is_registered_behind_a_command_and_not_behind_a_step_that_is_left_out(
    bench: Any, skipped: bool
) -> None:
    model = bench.put("s3://bucket/model.tar.gz", b"weights")
    result = bench.run(
        bench.processing("check"),
        bench.register("register", "models", model, DependsOn=["check"]),
        selection=Selection(skip=("check",) if skipped else ()),
        commands={} if skipped else {"check": "true"},
    )
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert list_groups(bench.home) == ([] if skipped else ["models"])


@pytest.mark.parametrize(
    ("selection", "told"),
    [
        (Selection(until=("b",)), "--until: 'b' is not a step of this definition; there are a"),
        (Selection(until=("a",), skip=("a",)), "--until: a is given to --skip as well"),
    ],
)
def test_a_choice_that_cannot_be_made_is_told(bench: Any, selection: Any, told: str) -> None:
    with pytest.raises(RefusedDefinitionError, match=told):
        bench.run(bench.processing("a"), selection=selection)


def test_a_step_that_is_asked_for_is_never_left_out_in_silence(bench: Any) -> None:
    reads = bench.equals({"Get": "Steps.deploy.Url"}, "x")
    steps = (FOREIGN, bench.condition("is-it", reads, then=[bench.processing("inside")]))
    with pytest.raises(RefusedDefinitionError, match="--until inside: it would be left out: it is"):
        bench.run(*steps, selection=Selection(until=("inside",), skip=("deploy",)))


def test_a_resumed_execution_keeps_its_choice(bench: Any) -> None:
    flag = bench.home.parent / "flag"
    code = f"import pathlib, sys; sys.exit(not pathlib.Path({str(flag)!r}).exists())"
    steps = (bench.processing("first", code), FOREIGN)
    failed = bench.run(*steps, selection=Selection(skip=("deploy",)))
    assert failed.status is ExecutionStatus.FAILED
    flag.touch()
    result = bench.run(*steps, resume=failed.execution_id)
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.steps["deploy"].status is StepStatus.NOT_EXECUTED


def test_the_terminal_names_what_is_left_out(bench: Any, tmp_path: Any) -> None:
    definition = tmp_path / "d.json"
    definition.write_text(bench.definition(bench.processing("first"), FOREIGN))
    given = ["pipeline", "run", str(definition), "--home", str(bench.home), "--image", "*=here"]
    done = CliRunner().invoke(main, [*given, "--skip", "deploy"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "left out: deploy (--skip)" in done.output


def test_a_command_answers_a_callback(bench: Any) -> None:
    result = bench.run(
        CALLBACK,
        bench.condition("is-it", bench.equals(ANSWER, True), then=[bench.processing("yes")]),
        commands={"ask": COMMAND},
    )
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert statuses(result)["yes"] == "Succeeded"
    assert bench.store.read("s3://bucket/said") == b"x\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("exit 7", "the command ended with code 7"),
        ("true", "the function returned None"),
        (giving("3"), "expected an object"),
        (giving("{"), "cannot be read"),
    ],
)
def test_a_command_that_does_not_answer_fails_its_step(bench: Any, command: str, told: str) -> None:
    result = bench.run(CALLBACK, commands={"ask": command})
    assert result.status is ExecutionStatus.FAILED
    assert told in result.failure


@pytest.mark.parametrize(
    "kind", ["Tuning", "Teleport", "Callback", "QualityCheck", "ClarifyCheck", "EMR"]
)
def test_a_type_that_cannot_run_here_is_refused_with_what_to_do(bench: Any, kind: str) -> None:
    with pytest.raises(RefusedDefinitionError, match=rf"{kind}.*--command ask=.*--skip ask"):
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


def test_a_command_gives_what_later_steps_read_and_the_request_says_the_rest(bench: Any) -> None:
    asked = {"Name": "beam", "Type": "Teleport", "Arguments": {"Where": "there"}, "Speed": 3}
    both = [{"Get": "Steps.beam.Where"}, {"Get": "Steps.beam.Url"}]
    joined = {"Std:Join": {"On": " ", "Values": both}}
    result = bench.run(
        asked,
        bench.condition("is-it", bench.equals(joined, "there u"), then=[bench.processing("yes")]),
        commands={"beam": giving('{"Url": "u"}')},
    )
    assert statuses(result)["yes"] == "Succeeded", result.failure


def test_a_command_writes_the_property_file_of_its_step(bench: Any) -> None:
    files = [{"PropertyFileName": "scores", "OutputName": "o", "FilePath": "scores.json"}]
    score = {
        "Std:JsonGet": {"PropertyFile": {"Get": "Steps.judge.PropertyFiles.scores"}, "Path": "a.b"}
    }
    folder = '"$COMPILEGATE_S3/bucket/judge/o"'
    result = bench.run(
        bench.processing("judge", "raise SystemExit(1)", outputs=["o"], PropertyFiles=files),
        bench.condition("is-it", bench.equals(score, 3), then=[bench.processing("yes")]),
        commands={
            "judge": f"""mkdir -p {folder} && echo '{{"a": {{"b": 3}}}}' > {folder}/scores.json"""
        },
    )
    assert statuses(result)["yes"] == "Succeeded", result.failure


def test_an_image_that_only_a_step_would_name_is_refused(bench: Any) -> None:
    train = bench.training("train")
    train["Arguments"]["AlgorithmSpecification"]["TrainingImage"] = {"Get": "Steps.deploy.Image"}
    with pytest.raises(
        RefusedDefinitionError, match=r"the image Steps\.deploy\.Image.*--skip train"
    ):
        bench.run(FOREIGN, train, commands={"deploy": "true"})


@pytest.mark.parametrize(
    "given",
    [
        '{"Outputs": {"out": {"OutputName": "out", "S3Output": {"S3Uri": "s3://b/eval"}}}}',
        '{"Outputs": [{"S3Output": {"S3Uri": "here"}}, "odd", {"S3Output": 3}]}',
        '{"Outputs": 3}',
        "[]",
    ],
    ids=["by name", "odd members", "number", "list"],
)
def test_what_a_command_says_of_outputs_may_have_any_form(bench: Any, given: str) -> None:
    step = bench.processing("first")
    bench.put("s3://b/eval/verdict.json", "{}")
    result = bench.run(step, commands={"first": giving(f'{{"ProcessingOutputConfig": {given}}}')})
    executor = LocalExecutor(definition=bench.definition(step), home=bench.home, images=HERE)
    assert statuses(result) == {"first": "Succeeded"}
    assert executor.fetch_verdict(result) == ("eval" in given)
