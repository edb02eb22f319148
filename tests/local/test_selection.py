"""--until, --skip, --command, explain: a step that cannot run here does not block the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compilegate.cli import main
from compilegate.execution.status import ExecutionStatus
from compilegate.local import (
    list_executions,
    list_groups,
)
from tests.local.conftest import Json, Workbench, failure_of, statuses

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).with_name("explained.txt")
FOREIGN = {"Name": "deploy", "Type": "Teleport", "Arguments": {"Where": "there"}, "Beam": 3}
CALLBACK = {
    "Name": "ask",
    "Type": "Callback",
    "Arguments": {"who": "anna"},
    "SqsQueueUrl": "https://sqs.example/queue",
    "OutputParameters": [{"OutputName": "approved", "OutputType": "Boolean"}],
}
ANSWER = """
grep -q anna "$COMPILEGATE_REQUEST" && grep -q SqsQueueUrl "$COMPILEGATE_REQUEST" &&
mkdir -p "$COMPILEGATE_S3/bucket" && echo x > "$COMPILEGATE_S3/bucket/answer" &&
echo '{"OutputParameters": {"approved": true}}' > "$COMPILEGATE_RESULT"
"""
SCORES = """
folder="$COMPILEGATE_S3/bucket/$COMPILEGATE_STEP/o"
mkdir -p "$folder" && echo '{"a": {"b": 3}}' > "$folder/scores.json"
"""


def giving(result: str) -> str:
    """A command that gives this JSON."""
    return f"""echo '{result}' > "$COMPILEGATE_RESULT" """


def invoke(bench: Workbench, command: str, file: Path, *options: str) -> Result:
    common = ["pipeline", command, str(file), "--image", "*=here", "--home", str(bench.home)]
    return CliRunner().invoke(main, [*common, *options], catch_exceptions=False)


def test_what_is_skipped_holds_up_only_what_reads_it(bench: Workbench) -> None:
    model = bench.put("s3://bucket/model.tar.gz", b"weights")
    url = bench.equals({"Get": "Steps.deploy.Url"}, "x")
    file = bench.written(
        FOREIGN,
        bench.processing("waits", DependsOn=["deploy"]),
        bench.condition("reads", url, then=[bench.processing("inside")]),
        bench.processing("after", DependsOn=["reads"]),
        bench.register("register", "models", model, DependsOn=["deploy"]),
    )
    done = invoke(
        bench, "run", file, *("--skip", "deploy"), *("--command", "waits=true"),
        *("--command", "after=true"),
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "left out: deploy (--skip)" in done.output
    (result,) = list_executions(bench.home)
    assert {name for name, it in statuses(result).items() if it == "Succeeded"} == {
        *("waits", "after")
    }
    assert list_groups(bench.home) == []
    failed = invoke(bench, "run", file, *("--skip", "deploy"), *("--command", "waits=false"))
    assert failed.exit_code == 3, failed.output
    newest, _ = list_executions(bench.home)
    assert statuses(newest)["deploy"] == "NotExecuted"


def test_until_carries_out_what_a_step_needs_and_nothing_else(bench: Workbench) -> None:
    result = bench.succeed(
        bench.processing("first"),
        bench.processing("second", DependsOn=["first"]),
        bench.processing("aside"),
        FOREIGN,
        bench.processing("third", DependsOn=["second"]),
        until=("second",),
        commands={"first": "true", "second": "true"},
    )
    ran = [name for name, status in statuses(result).items() if status == "Succeeded"]
    assert ran == ["first", "second"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"until": ("b",)}, "--until: 'b' is not a step of this definition"),
        ({"until": ("no",), "skip": ("no",)}, "--until and --skip both name no"),
        (
            {"until": ("inside",), "skip": ("deploy",)},
            "--until inside: that step is left out: it is",
        ),
        ({"commands": {"b": "true"}}, "--command: 'b' is not a step"),
        ({"commands": {"no": "true"}}, "no is a Fail step, which no command can stand for"),
    ],
)
def test_a_choice_that_cannot_be_made_is_named(bench: Workbench, options: Any, reason: str) -> None:
    reads = bench.equals({"Get": "Steps.deploy.Url"}, "x")
    found = bench.refused(
        FOREIGN,
        bench.condition("is-it", reads, then=[bench.processing("inside")]),
        bench.fail("no"),
        **options,
    )
    assert reason in found[0]


def test_commands_answer_give_and_write_what_later_steps_read(bench: Workbench) -> None:
    """What a command does not give comes from the step's own request."""
    files = [{"PropertyFileName": "scores", "OutputName": "o", "FilePath": "scores.json"}]
    score = {"PropertyFile": {"Get": "Steps.judge.PropertyFiles.scores"}, "Path": "a.b"}
    both = [{"Get": "Steps.deploy.Where"}, {"Get": "Steps.deploy.Url"}]
    model = bench.put("s3://bucket/model.tar.gz", b"weights")
    bench.succeed(
        CALLBACK,
        FOREIGN,
        bench.processing("judge", outputs=["o"], PropertyFiles=files),
        bench.condition(
            "all",
            bench.equals({"Get": "Steps.ask.OutputParameters['approved']"}, True),
            bench.equals({"Std:Join": {"On": " ", "Values": both}}, "there u"),
            bench.equals({"Std:JsonGet": score}, 3),
            then=[bench.register("register", "models", model, DependsOn=["judge"])],
        ),
        commands={"ask": ANSWER, "deploy": giving('{"Url": "u"}'), "judge": SCORES},
    )
    assert bench.store.read("s3://bucket/answer") == b"x\n"
    assert list_groups(bench.home) == ["models"]


def test_a_command_that_does_not_answer_fails_its_step(bench: Workbench) -> None:
    reasons = {
        "exit 7": "the command ended with code 7",
        "true": "the command returned None",
        giving("3"): "expected an object",
        giving("{"): "cannot be read",
    }
    names = [f"ask-{index}" for index in range(len(reasons))]
    result = bench.run_each(
        *(CALLBACK | {"Name": name} for name in names),
        commands=dict(zip(names, reasons, strict=True)),
    )
    assert result.status is ExecutionStatus.COMPLETED_WITH_FAILURES
    for name, sentence in zip(names, reasons.values(), strict=True):
        assert sentence in failure_of(result, name)


def foreign_steps(bench: Workbench) -> list[Json]:
    outcome = {"Get": "Steps.check.Outcome"}
    return [
        bench.processing("prepare", outputs=["o"]),
        bench.processing("train", DependsOn=["prepare"]),
        {"Name": "check", "Type": "QualityCheck", "Arguments": {}, "DependsOn": ["train"]},
        {"Name": "beam", "Type": "Teleport", "Arguments": {}},
        bench.condition(
            "good",
            bench.equals(1, 1),
            then=[bench.processing("deploy", arguments=[outcome])],
            otherwise=[bench.fail("bad", "no <good>")],
            DependsOn=["train"],
        ),
    ]


def test_explain_prints_the_text_that_was_kept_and_writes_nothing(bench: Workbench) -> None:
    file = bench.written(*foreign_steps(bench))
    result = invoke(bench, "explain", file)
    assert result.exit_code == 2
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(result.output, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == result.output
    chosen = invoke(bench, "explain", file, "--skip", "beam", "--command", "check=true")
    assert chosen.exit_code == 0, chosen.output
    assert "left out: --skip" in chosen.output
    assert "the command true" in chosen.output
    assert not bench.home.exists()
