"""Steps start when what they wait for has ended as they ask, and the execution ends accordingly."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from compilegate.cli import main
from compilegate.document.graph import StepGraph, build_graph
from compilegate.document.model import TRIGGERS, Branch, Definition, Dependency, Step
from compilegate.execution.events import StepEnded, StepRetried, StepStarted
from compilegate.execution.result import StepResult
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import (
    ImageSources,
    LocalExecutor,
    list_executions,
    list_packages,
    parse_handler,
)
from compilegate.local.progress import Progress
from tests.local.conftest import Json, Workbench, archive, failure_of, statuses

pytestmark = pytest.mark.slow

BAD = {StepStatus.FAILED, StepStatus.STOPPED}


def after(step: str, trigger: str) -> list[dict[str, str]]:
    return [{"Step": step, "Trigger": trigger}]


def test_steps_follow_their_dependencies_and_the_branches_that_are_taken(bench: Workbench) -> None:
    inner = bench.condition(
        "inner",
        *(bench.equals("x", "x"), bench.equals("x", "y")),  # all must hold
        then=[bench.fail("no")],
        otherwise=[bench.processing("yes")],
    )
    outer = bench.condition(
        "outer", bench.equals(1, 1.0), then=[inner], otherwise=[bench.fail("never")]
    )
    jobs = ("first", "b", "a")
    commands = ("second", "last", "yes", "after-never", "after-yes", "rescue")
    result = bench.succeed(
        bench.processing("last", DependsOn=["second"]),
        bench.processing("second", arguments=[{"Get": "Steps.first.ProcessingJobName"}]),
        *(bench.processing(name) for name in jobs),
        outer,
        bench.processing("after-never", DependsOn=["never"]),
        bench.processing("after-yes", DependsOn=["yes"]),
        bench.processing("rescue", DependsOn=after("a", "Failed")),
        commands=dict.fromkeys(commands, "true"),
        max_parallel_steps=1,
    )
    assert {name for name, status in statuses(result).items() if status == "NotExecuted"} == {
        *("no", "never", "after-never", "rescue")
    }
    assert (result.steps["outer"].outcome, result.steps["inner"].outcome) == (True, False)
    events = [it for it in bench.events if isinstance(it, StepStarted | StepEnded)]
    # Jobs start in the order of the definition, one at a time.
    assert [(it.step, type(it)) for it in events if it.step in jobs] == [
        (name, kind) for name in jobs for kind in (StepStarted, StepEnded)
    ]
    started = [it.step for it in events if isinstance(it, StepStarted)]
    assert started.index("first") < started.index("second") < started.index("last")
    assert {it.step: it.status for it in events if isinstance(it, StepEnded)} == {
        name: it.status for name, it in result.steps.items() if name in started
    } | dict.fromkeys(("outer", "inner"), StepStatus.SUCCEEDED)


def test_a_failure_that_a_step_waits_for_does_not_fail_the_execution(bench: Workbench) -> None:
    others = ("on-success", "on-failure", "on-any", "on-stop")
    result = bench.run(
        bench.processing("bad", "raise SystemExit(3)"),
        bench.processing("on-success", DependsOn=["bad"]),
        bench.processing("on-failure", DependsOn=after("bad", "Failed")),
        bench.processing("on-any", DependsOn=after("bad", "Any")),
        bench.processing("on-stop", DependsOn=after("bad", "Stopped")),
        bench.processing(
            "report", arguments=[{"Get": "Steps.bad.FailureReason"}], DependsOn=after("bad", "Any")
        ),
        commands={
            **dict.fromkeys(others, "true"),
            "report": 'grep "exit code 3" "$COMPILEGATE_REQUEST"',
        },
    )
    assert result.status is ExecutionStatus.COMPLETED_WITH_FAILURES
    succeeded = {name for name, status in statuses(result).items() if status == "Succeeded"}
    assert succeeded == {"on-failure", "on-any", "report"}


def test_a_condition_that_cannot_be_decided_fails_the_execution(bench: Workbench) -> None:
    result = bench.run(bench.condition("decide", bench.equals(1, "1")))
    assert (result.status, result.failed_by) == (ExecutionStatus.FAILED, "job")
    assert "the number 1 cannot be compared with the string '1'" in str(result.failure)


def test_a_fail_step_ends_the_execution_with_its_message(bench: Workbench) -> None:
    message = {"Std:Join": {"On": " ", "Values": ["no model for", {"Get": "Parameters.Name"}]}}
    definition = bench.written(
        bench.condition("decide", bench.equals("a", "b"), otherwise=[bench.fail("stop", message)]),
        bench.processing("later", DependsOn=["stop"]),
        bench.processing("rescue", DependsOn=after("stop", "Failed")),
        parameters=[{"Name": "Name", "Type": "String", "DefaultValue": "reuters"}],
    )
    command = ["pipeline", "run", str(definition), "--image", "*=here", "--home", str(bench.home)]
    assert CliRunner().invoke(main, command).exit_code == 9  # the gate's own is another
    (result,) = list_executions(bench.home)
    assert (result.status, result.failed_by) == (ExecutionStatus.FAILED, "fail-step")
    assert result.failure == "no model for reuters"
    assert [result.steps[name].attempts for name in ("later", "rescue")] == [0, 0]


def test_a_job_over_its_time_limit_is_stopped(bench: Workbench) -> None:
    limit = {"StoppingCondition": {"MaxRuntimeInSeconds": 1}}
    result = bench.run(
        bench.processing("endless", "import signal; signal.pause()", request=limit),
        bench.processing("next", DependsOn=after("endless", "Stopped")),
        commands={"next": "true"},
    )
    assert result.status is ExecutionStatus.COMPLETED_WITH_FAILURES
    assert statuses(result) == {"endless": "Stopped", "next": "Succeeded"}
    assert "ran longer than MaxRuntimeInSeconds (1 s)" in failure_of(result, "endless")
    assert result.steps["endless"].properties["ProcessingJobStatus"] == "Stopped"


def retried(kind: str, attempts: int) -> list[dict[str, Any]]:
    policy = {"ExceptionType": [kind], "IntervalSeconds": 0, "BackoffRate": 1.0}
    return [policy | {"MaxAttempts": attempts}]


def test_a_failure_is_tried_again_as_often_as_a_policy_names_it(bench: Workbench) -> None:
    first = f"""
        import os, pathlib, signal
        flag = pathlib.Path({str(bench.folder / "flag")!r})
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    fault, crash = "SageMaker.JOB_INTERNAL_ERROR", "raise SystemExit(5)"
    result = bench.run_each(
        bench.processing("killed", first, RetryPolicies=retried(fault, 2)),
        bench.processing("ends", crash, RetryPolicies=retried("AlgorithmError", 1)),
        bench.processing("unnamed", crash, RetryPolicies=retried(fault, 5)),
    )
    assert {
        name: (str(it.status), it.attempts) for name, it in result.steps.items() if "-" not in name
    } == {"killed": ("Succeeded", 2), "ends": ("Failed", 2), "unnamed": ("Failed", 1)}
    assert result.steps["killed"].failure is None
    again = [(it.step, it.attempt) for it in bench.events if isinstance(it, StepRetried)]
    assert sorted(again) == [("ends", 1), ("killed", 1)]


def test_a_property_file_that_its_step_did_not_write_is_named(bench: Workbench) -> None:
    file = {"PropertyFileName": "Report", "OutputName": "out", "FilePath": "r.json"}
    read = {"PropertyFile": {"Get": "Steps.make.PropertyFiles.Report"}, "Path": "a"}
    result = bench.run(
        bench.processing("make", outputs=["out"], PropertyFiles=[file]),
        bench.condition("decide", bench.equals({"Std:JsonGet": read}, 1)),
    )
    assert result.status is ExecutionStatus.FAILED
    assert "step make did not write r.json to its output out" in str(result.failure)
    assert str(bench.home / "s3/bucket/make/out/r.json") in str(result.failure)


@st.composite
def graphs(draw: st.DrawFn) -> StepGraph:
    """Up to six steps, each waiting for earlier ones on some trigger, some of them on a branch."""
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 6))):
        earlier = draw(st.sets(st.integers(0, index - 1), max_size=2)) if index else set()
        triggers = [draw(st.sampled_from(TRIGGERS)) for _ in earlier]
        conditions = [step.name for step in steps if step.type == "Condition"]
        on = draw(st.sampled_from([None, *conditions]))
        steps.append(
            Step(
                f"s{index}",
                draw(st.sampled_from(["Processing", "Condition", "Fail"])),
                {},
                tuple(Dependency(f"s{i}", t) for i, t in zip(earlier, triggers, strict=True)),
                branch=None if on is None else Branch(on, draw(st.booleans())),
            )
        )
    return build_graph(Definition((), tuple(steps)))


@given(graphs(), st.randoms(use_true_random=False))
def test_every_execution_comes_to_an_end(graph: StepGraph, chance: random.Random) -> None:
    steps = {name: StepResult(name, step.type) for name, step in graph.steps.items()}
    while True:
        progress = Progress(graph, steps)
        unreachable, ready = progress.not_to_be_executed(), progress.ready()
        assert not set(unreachable) & set(ready)
        if not unreachable and not ready:
            break
        for name in unreachable:
            steps[name] = replace(steps[name], status=StepStatus.NOT_EXECUTED)
        if ready:
            name = chance.choice(ready)
            status = chance.choice([StepStatus.SUCCEEDED, *BAD])
            steps[name] = replace(steps[name], status=status, outcome=chance.random() < 0.5)
    states = [step.status for step in steps.values()]
    failed = any(state in BAD for state in states)
    if progress.failure_is_final():
        assert failed
        assert progress.final_status() is ExecutionStatus.FAILED
    else:
        assert StepStatus.WAITING not in states
        expected = ExecutionStatus.COMPLETED_WITH_FAILURES if failed else ExecutionStatus.SUCCEEDED
        assert progress.final_status() is expected


ARN = "arn:aws:lambda:eu-west-1:111122223333:function:"
TEXT = {"OutputName": "text", "OutputType": "String"}


def function(name: str, outputs: Any = (TEXT,), **arguments: Any) -> Json:
    return {
        "Name": name,
        "Type": "Lambda",
        "Arguments": arguments,
        "FunctionArn": f"{ARN}{name}",
        "OutputParameters": list(outputs),
    }


def handled(bench: Workbench, code: str, name: str = "lambda_handler") -> Any:
    """This code for the function that is called as its step."""
    return (source(bench, "greet", code, name),)


def source(bench: Workbench, step: str, code: str, name: str = "lambda_handler") -> Any:
    file = bench.folder / f"{step}.py"
    file.write_text(dedent(code))
    return f"*:function:{step}", parse_handler(f"{file}:{name}")


def test_a_function_runs_by_itself_and_a_later_step_reads_what_it_returned(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process beside other steps: it waits for what one of them does."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-it")
    os.mkfifo(bench.folder / "met")
    (bench.folder / "beside.py").write_text("WORD = 'hello'")
    code = """
    import os, beside

    def handler(event, context):
        assert os.environ["AWS_SECRET_ACCESS_KEY"] != "not-for-it"
        assert context.get_remaining_time_in_millis() > 500_000
        assert os.getppid() != event["runner"]
        open(event["pipe"]).read()
        return {"text": f"{beside.WORD} {event['who']} from {context.function_name}", "more": 1}
    """
    text = {"Get": "Steps.greet.OutputParameters['text']"}
    pipe = str(bench.folder / "met")
    result = bench.succeed(
        function("greet", who="anna", runner=os.getpid(), pipe=pipe),
        bench.processing("other"),
        bench.condition(
            "is-it", bench.equals(text, "hello anna from greet"), otherwise=[bench.fail("no", text)]
        ),
        functions=handled(bench, code, "handler"),
        commands={"other": f"echo x > {pipe}"},
    )
    assert result.steps["greet"].properties == {
        "OutputParameters": {"text": "hello anna from greet"}
    }


def test_a_function_that_does_not_keep_its_word_fails_its_step(bench: Workbench) -> None:
    reasons = {
        "lambda_handler = lambda e, c: {}": "the function returned no text, but nothing",
        "lambda_handler = lambda e, c: {'text': 3}": "returned text = 3, declared as String",
        "lambda_handler = lambda e, c: 'hi'": "returned 'hi', expected an object with text",
        "lambda_handler = lambda e, c: {'text': float('nan')}": "not JSON compliant",
        "lambda_handler = lambda e, c: open": "is not JSON serializable",
        "def lambda_handler(e, c): raise ValueError('no greeting')": "no greeting",
        "other = 1": "has no function lambda_handler",
        "def lambda_handler(e, c): import os; os._exit(3)": "ended with code 3",
        "def (": "SyntaxError",
    }
    names = [f"f{index}" for index in range(len(reasons))]
    sources = [source(bench, name, code) for name, code in zip(names, reasons, strict=True)]
    steps = [function(name) for name in names]
    result = bench.run_each(*steps, functions=tuple(sources))
    for name, sentence in zip(names, reasons.values(), strict=True):
        assert sentence in failure_of(result, name)


def test_what_cannot_be_called_is_refused(bench: Workbench) -> None:
    unknown = {"Get": "Steps.other.OutputParameters['text']"}
    steps = {
        f"no file is named for the function {ARN}greet; name its handler's": {},
        "greet: FunctionArn is 3, expected the ARN of a function": {"FunctionArn": 3},
        "OutputParameters[0] needs OutputName, a string": {"OutputParameters": [{}]},
        "must be known before the execution starts": {"FunctionArn": unknown},
        "stands for absent.py, which is not a file": {"FunctionArn": "arn:absent"},
    }
    sources = (("*absent", parse_handler("absent.py")),)
    for reason, step in steps.items():
        found = bench.refused({**function("greet"), **step}, function("other"), functions=sources)
        assert any(reason in problem for problem in found), found


DEFINITION = Path(__file__).with_name("sdk_pipeline.json")

JOB = """
import json, os, pathlib, sys, tarfile

root = pathlib.Path("/opt/ml/processing".replace("/opt/ml", os.path.dirname(os.getcwd())))
if sys.argv[1] == "prepare":
    (root / "out/train.txt").write_text((root / "raw/raw.txt").read_text().upper())
elif sys.argv[1] == "gate":
    with tarfile.open(root / "compiled/model.tar.gz") as archive:
        ratio = float(archive.extractfile("speed").read())
    report = {
        "decision": {"arm": "compiled", "sound": True},
        "arms": {"compiled": {"speedup": ratio}},
        "reasons": [{"code": "speed"}],
        "job": sys.argv[2],
    }
    (root / "out/report.json").write_text(json.dumps(report))
"""

TRAIN = """
import os, pathlib, sys

data = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"], "train.txt").read_text()
assert data == "GOOD"
pathlib.Path(os.environ["SM_MODEL_DIR"], "speed").write_text("1.5")
print(f"accuracy=0.{90 + int(sys.argv[sys.argv.index('--epochs') + 1])}")
"""


def test_a_definition_that_the_real_sdk_made_runs_to_its_end(bench: Workbench) -> None:
    bench.put("s3://bucket/code/job.py", JOB)
    bench.put("s3://bucket/code/source.tar.gz", archive({"training/train.py": TRAIN}))
    bench.put("s3://bucket/raw/raw.txt", "good")
    executor = LocalExecutor(
        definition=DEFINITION.read_bytes(),
        home=bench.home,
        images=ImageSources(patterns=(("*/example:*", "here"),)),
    )
    result = executor.follow(executor.start("sdk-pipeline", {"Epochs": 2}))
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert result.steps["decide"].outcome is True
    (package,) = list_packages(bench.home, "example")
    job = result.steps["compiled"].job_name
    assert package.description["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == (
        f"s3://bucket/models/{job}/output/model.tar.gz"
    )
    assert package.description["CustomerMetadataProperties"] == {"execution": result.execution_id}
    report = json.loads(bench.store.read(f"s3://bucket/{result.execution_id}/gate/report.json"))
    assert (report["job"], report["arms"]["compiled"]["speedup"]) == (job, 1.5)
    metrics = result.steps["compiled"].properties["FinalMetricDataList"]
    assert [(m["MetricName"], m["Value"]) for m in metrics] == [("validation:accuracy", 0.92)]
    assert result.steps["note"].status is StepStatus.NOT_EXECUTED
