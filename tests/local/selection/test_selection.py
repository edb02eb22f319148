"""--until, --skip and --stub: one step that cannot run here no longer blocks all others."""

from __future__ import annotations

from typing import Any

import pytest

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


def statuses(result: Any) -> dict[str, str]:
    return {name: str(step.status) for name, step in result.steps.items()}


def test_a_step_that_nobody_knows_is_refused_with_what_to_do(bench: Any) -> None:
    with pytest.raises(RefusedDefinitionError, match=r"--skip deploy.*--stub deploy=FILE"):
        bench.run(bench.processing("first"), FOREIGN)


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


def test_a_stub_stands_for_a_step_and_its_request_says_the_rest(bench: Any) -> None:
    asked = {"Name": "ask", "Type": "Teleport", "Arguments": {"Where": "there"}}
    both = {
        "Std:Join": {"On": " ", "Values": [{"Get": "Steps.ask.Where"}, {"Get": "Steps.ask.Url"}]}
    }
    result = bench.run(
        asked,
        bench.condition("is-it", bench.equals(both, "there u"), then=[bench.processing("yes")]),
        selection=Selection(stubs={"ask": {"Url": "u"}}),
    )
    assert statuses(result) == {"ask": "Succeeded", "is-it": "Succeeded", "yes": "Succeeded"}


def test_a_stub_brings_the_content_of_a_property_file(bench: Any) -> None:
    files = [{"PropertyFileName": "scores", "OutputName": "o", "FilePath": "scores.json"}]
    score = {
        "Std:JsonGet": {"PropertyFile": {"Get": "Steps.judge.PropertyFiles.scores"}, "Path": "a.b"}
    }
    result = bench.run(
        bench.processing("judge", "raise SystemExit(1)", outputs=["o"], PropertyFiles=files),
        bench.condition("is-it", bench.equals(score, 3), then=[bench.processing("yes")]),
        selection=Selection(stubs={"judge": {"PropertyFiles": {"scores": {"a": {"b": 3}}}}}),
    )
    assert statuses(result)["yes"] == "Succeeded"


@pytest.mark.parametrize("asked", [False, True])
def test_nothing_is_registered_from_a_stub_unless_asked(bench: Any, asked: bool) -> None:
    model = bench.put("s3://bucket/model.tar.gz", b"weights")
    result = bench.run(
        bench.training("train"),
        bench.register("register", "models", MODEL),
        selection=Selection(
            stubs={"train": {"ModelArtifacts": {"S3ModelArtifacts": model}}},
            register_from_stubs=asked,
        ),
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert list_groups(bench.home) == (["models"] if asked else [])


def test_nothing_is_registered_behind_a_check_that_was_skipped(bench: Any) -> None:
    result = bench.run(
        bench.training("train"),
        bench.processing("check"),
        bench.register("register", "models", MODEL, DependsOn=["check"]),
        selection=Selection(skip=("check",)),
    )
    assert statuses(result)["register"] == "NotExecuted"


@pytest.mark.parametrize(
    ("selection", "told"),
    [
        (Selection(until=("b",)), "--until: 'b' is not a step of this definition; there are a"),
        (Selection(skip=("a",), stubs={"a": {}}), "--stub: a is given to --skip as well"),
        (Selection(stubs={"a": {"PropertyFiles": {"x": 1}}}), "has x; the step declares none"),
    ],
)
def test_a_choice_that_cannot_be_made_is_told(bench: Any, selection: Any, told: str) -> None:
    with pytest.raises(RefusedDefinitionError, match=told):
        bench.run(bench.processing("a"), selection=selection)


def test_a_stub_that_lacks_what_is_read_is_refused_before_anything_starts(bench: Any) -> None:
    with pytest.raises(RefusedDefinitionError, match="the stub of deploy needs Url"):
        bench.run(
            FOREIGN,
            bench.processing("go", arguments=[{"Get": "Steps.deploy.Url"}]),
            selection=Selection(stubs={"deploy": {"Elsewhere": 1}}),
        )


def test_what_a_stub_says_is_known_before_anything_starts(bench: Any) -> None:
    """The image of a model that only a service would have found."""
    search = {"Name": "search", "Type": "AutoML", "Arguments": {}}
    train = bench.training("train", "print('trained')")
    found = {
        "Image": train["Arguments"]["AlgorithmSpecification"]["TrainingImage"],
        "Url": "s3://b/m",
    }
    train["Arguments"]["AlgorithmSpecification"]["TrainingImage"] = {
        "Get": "Steps.search.Best.Image"
    }
    result = bench.run(search, train, selection=Selection(stubs={"search": {"Best": found}}))
    assert result.steps["train"].status is StepStatus.SUCCEEDED
    source = {"S3DataSource": {"S3Uri": {"Get": "Steps.search.Best.Url"}, "S3DataType": "S3Prefix"}}
    train["Arguments"]["InputDataConfig"] = [{"ChannelName": "train", "DataSource": source}]
    with pytest.raises(RefusedDefinitionError, match="train: s3://b/m is not in the local store"):
        bench.run(search, train, selection=Selection(stubs={"search": {"Best": found}}))


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


def test_the_command_names_what_it_left_out(bench: Any, tmp_path: Any) -> None:
    from click.testing import CliRunner  # noqa: PLC0415

    from compilegate.cli import main  # noqa: PLC0415

    definition = tmp_path / "d.json"
    definition.write_text(bench.definition(bench.processing("first"), FOREIGN))
    common = ["pipeline", "run", str(definition), "--home", str(bench.home), "--image", "*=here"]
    skipped = CliRunner().invoke(main, [*common, "--skip", "deploy"], catch_exceptions=False)
    assert skipped.exit_code == 0, skipped.output
    assert "left out: deploy (--skip)" in skipped.output


@pytest.mark.parametrize(
    "given",
    [
        {"Outputs": {"out": {"OutputName": "out", "S3Output": {"S3Uri": "s3://b/eval"}}}},
        {"Outputs": [{"OutputName": "out", "S3Output": {"S3Uri": "here"}}, "odd", {"S3Output": 3}]},
        {"Outputs": 3},
        [],
    ],
    ids=["by name", "odd members", "number", "list"],
)
def test_what_a_stub_says_of_outputs_may_have_any_form(bench: Any, given: Any) -> None:
    step = bench.processing("first")
    stub = {"ProcessingOutputConfig": given}
    result = bench.run(step, selection=Selection(stubs={"first": stub}))
    executor = LocalExecutor(definition=bench.definition(step), home=bench.home, images=HERE)
    assert statuses(result) == {"first": "Succeeded"}
    assert not executor.fetch_verdict(result)
    if isinstance(given, dict) and isinstance(given["Outputs"], dict):
        bench.put("s3://b/eval/verdict.json", "{}")
        assert executor.fetch_verdict(result)


def test_a_step_that_is_asked_for_is_never_left_out_in_silence(bench: Any) -> None:
    reads = bench.equals({"Get": "Steps.deploy.Url"}, "x")
    steps = (FOREIGN, bench.condition("is-it", reads, then=[bench.processing("inside")]))
    with pytest.raises(RefusedDefinitionError, match="--until inside: it would be left out: it is"):
        bench.run(*steps, selection=Selection(until=("inside",), skip=("deploy",)))
