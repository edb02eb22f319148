"""Steps start when what they wait for has ended as they ask, and the execution ends accordingly."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.document.graph import StepGraph, build_graph
from compilegate.document.model import TRIGGERS, Branch, Definition, Dependency, Step
from compilegate.execution.events import StepEnded, StepRetried, StepStarted
from compilegate.execution.failure import StepFailure
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local.progress import Progress

pytestmark = pytest.mark.slow

SUCCEEDED, FAILED, SKIPPED = StepStatus.SUCCEEDED, StepStatus.FAILED, StepStatus.NOT_EXECUTED
CRASH = "raise SystemExit(3)"


def statuses(result: Any) -> dict[str, StepStatus]:
    return {name: step.status for name, step in result.steps.items()}


def started(bench: Any) -> list[str]:
    return [event.step for event in bench.events if isinstance(event, StepStarted)]


def test_a_step_waits_for_the_steps_it_reads_from_and_depends_on(bench: Any) -> None:
    result = bench.run(
        bench.processing("last", DependsOn=["second"]),
        bench.processing("second", arguments=[{"Get": "Steps.first.ProcessingJobName"}]),
        bench.processing("first"),
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert started(bench) == ["first", "second", "last"]


def test_ready_steps_start_in_definition_order(bench: Any) -> None:
    names = ["c", "a", "b"]
    bench.run(*(bench.processing(name) for name in names), max_parallel_steps=1)
    assert started(bench) == names


def test_no_more_jobs_run_at_once_than_allowed(bench: Any) -> None:
    bench.run(*(bench.processing(name) for name in "abc"), max_parallel_steps=1)
    changes = [type(e) for e in bench.events if isinstance(e, StepStarted | StepEnded)]
    assert changes == [StepStarted, StepEnded] * 3


def test_only_the_branch_that_is_taken_runs_nested_ones_included(bench: Any) -> None:
    inner = bench.condition(
        "inner",
        bench.equals("x", "y"),
        then=[bench.fail("no")],
        otherwise=[bench.processing("yes")],
    )
    result = bench.run(
        bench.condition(
            "outer", bench.equals(1, 1.0), then=[inner], otherwise=[bench.fail("never")]
        ),
        bench.processing("after-never", DependsOn=["never"]),
        bench.processing("after-yes", DependsOn=["yes"]),
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert statuses(result) == {
        "outer": SUCCEEDED,
        "inner": SUCCEEDED,
        "no": SKIPPED,
        "yes": SUCCEEDED,
        "never": SKIPPED,
        "after-never": SKIPPED,
        "after-yes": SUCCEEDED,
    }
    assert (result.steps["outer"].outcome, result.steps["inner"].outcome) == (True, False)


def test_the_conditions_of_a_step_must_all_hold(bench: Any) -> None:
    result = bench.run(
        bench.condition("both", bench.equals(1, 1), bench.equals(1, 2), then=[bench.fail("taken")])
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.steps["both"].outcome is False


def test_a_condition_that_cannot_be_decided_fails_the_execution(bench: Any) -> None:
    result = bench.run(bench.condition("decide", bench.equals(1, "1"), then=[], otherwise=[]))
    assert result.status is ExecutionStatus.FAILED
    assert result.failed_by == "job"
    assert "the number 1 cannot be compared with the string '1'" in result.failure


def test_a_fail_step_ends_the_execution_with_its_message(bench: Any) -> None:
    message = {"Std:Join": {"On": " ", "Values": ["no model for", {"Get": "Parameters.Name"}]}}
    result = bench.run(
        bench.condition("decide", bench.equals("a", "b"), otherwise=[bench.fail("stop", message)]),
        bench.processing("later", DependsOn=["stop"]),
        parameters=[{"Name": "Name", "Type": "String", "DefaultValue": "reuters"}],
    )
    assert (result.status, result.failed_by) == (ExecutionStatus.FAILED, "fail-step")
    assert result.failure == "no model for reuters"
    assert statuses(result)["later"] is not SUCCEEDED


def test_a_failed_job_fails_the_execution_and_says_why(bench: Any) -> None:
    result = bench.run(
        bench.processing("bad", "print('line one'); print('the cause'); raise SystemExit(3)"),
        bench.processing("next", DependsOn=["bad"]),
    )
    assert (result.status, result.failed_by) == (ExecutionStatus.FAILED, "job")
    assert result.failure.startswith("bad: exit code 3; log: ")
    bad = result.steps["bad"]
    assert bad.failure == StepFailure("exit code 3", bad.log, ("line one", "the cause"))
    assert bad.log.read_text() == "line one\nthe cause\n"
    assert result.steps["next"].attempts == 0


def test_a_failure_that_a_step_waits_for_does_not_fail_the_execution(bench: Any) -> None:
    result = bench.run(
        bench.processing("bad", CRASH),
        bench.processing("on-success", DependsOn=["bad"]),
        bench.processing("on-failure", DependsOn=[{"Step": "bad", "Trigger": "Failed"}]),
        bench.processing("on-any", DependsOn=[{"Step": "bad", "Trigger": "Any"}]),
        bench.processing("on-stop", DependsOn=[{"Step": "bad", "Trigger": "Stopped"}]),
    )
    assert result.status is ExecutionStatus.COMPLETED_WITH_FAILURES
    assert statuses(result) == {
        "bad": FAILED,
        "on-success": SKIPPED,
        "on-failure": SUCCEEDED,
        "on-any": SUCCEEDED,
        "on-stop": SKIPPED,
    }


def test_a_step_for_a_failure_can_read_what_the_failed_job_was(bench: Any) -> None:
    reason = {"Get": "Steps.bad.FailureReason"}
    result = bench.run(
        bench.processing("bad", CRASH),
        bench.processing(
            "report",
            "import sys; print(sys.argv[1])",
            arguments=[reason],
            DependsOn=[{"Step": "bad", "Trigger": "Failed"}],
        ),
    )
    assert result.steps["report"].log.read_text() == "exit code 3\n"


def test_a_fail_step_is_final_even_when_a_step_waits_for_its_failure(bench: Any) -> None:
    result = bench.run(
        bench.fail("stop"),
        bench.processing("rescue", DependsOn=[{"Step": "stop", "Trigger": "Failed"}]),
    )
    assert (result.status, result.failed_by) == (ExecutionStatus.FAILED, "fail-step")
    assert result.steps["rescue"].attempts == 0


def test_a_trigger_on_a_success_is_not_executed(bench: Any) -> None:
    result = bench.run(
        bench.processing("good"),
        bench.processing("rescue", DependsOn=[{"Step": "good", "Trigger": "Failed"}]),
    )
    assert result.status is ExecutionStatus.SUCCEEDED
    assert statuses(result)["rescue"] is SKIPPED


def test_a_job_over_its_time_limit_is_stopped(bench: Any) -> None:
    limit = {"StoppingCondition": {"MaxRuntimeInSeconds": 1}}
    code = "import signal; print('waiting', flush=True); signal.pause()"
    result = bench.run(
        bench.processing("endless", code, request=limit),
        bench.processing("after", DependsOn=[{"Step": "endless", "Trigger": "Stopped"}]),
    )
    assert result.status is ExecutionStatus.COMPLETED_WITH_FAILURES
    endless = result.steps["endless"]
    assert endless.status is StepStatus.STOPPED
    assert "ran longer than MaxRuntimeInSeconds (1 s)" in endless.failure.sentence
    assert endless.properties["ProcessingJobStatus"] == "Stopped"


def policy(kind: str, attempts: int) -> dict[str, Any]:
    return {
        "ExceptionType": [kind],
        "IntervalSeconds": 0,
        "BackoffRate": 1.0,
        "MaxAttempts": attempts,
    }


def flaky(bench: Any, ending: str) -> str:
    """A program that ends badly until its third start."""
    counter = bench.home.parent / "starts"
    return f"""
        import os, pathlib, signal
        starts = pathlib.Path({str(counter)!r})
        count = len(starts.read_text()) if starts.exists() else 0
        starts.write_text("x" * (count + 1))
        if count < 2:
            {ending}
    """


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "SageMaker.JOB_INTERNAL_ERROR"),
        ("raise SystemExit(5)", "AlgorithmError"),
    ],
)
def test_a_failure_that_a_policy_names_is_tried_again(bench: Any, ending: str, kind: str) -> None:
    step = bench.processing("flaky", flaky(bench, ending), RetryPolicies=[policy(kind, 2)])
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.steps["flaky"].attempts == 3
    assert result.steps["flaky"].failure is None
    retried = [event.attempt for event in bench.events if isinstance(event, StepRetried)]
    assert retried == [1, 2]


def test_a_property_file_that_its_step_did_not_write_is_named(bench: Any) -> None:
    file = {"PropertyFileName": "Report", "OutputName": "out", "FilePath": "r.json"}
    read = {"PropertyFile": {"Get": "Steps.make.PropertyFiles.Report"}, "Path": "a"}
    result = bench.run(
        bench.processing("make", outputs=["out"], PropertyFiles=[file]),
        bench.condition("decide", bench.equals({"Std:JsonGet": read}, 1)),
    )
    assert result.status is ExecutionStatus.FAILED
    assert "step make did not write r.json to its output out" in result.failure
    assert str(bench.home / "s3/bucket/make/out/r.json") in result.failure


def test_attempts_end_where_the_policy_says(bench: Any) -> None:
    code = flaky(bench, "raise SystemExit(5)")
    result = bench.run(bench.processing("flaky", code, RetryPolicies=[policy("AlgorithmError", 1)]))
    assert result.status is ExecutionStatus.FAILED
    assert result.steps["flaky"].attempts == 2


def test_a_failure_that_no_policy_names_is_final(bench: Any) -> None:
    policies = [policy("SageMaker.JOB_INTERNAL_ERROR", 5)]
    result = bench.run(bench.processing("bad", CRASH, RetryPolicies=policies))
    assert result.status is ExecutionStatus.FAILED
    assert result.steps["bad"].attempts == 1


def test_every_step_that_ends_is_told_to_the_listener(bench: Any) -> None:
    bench.run(bench.processing("one"), bench.fail("two", DependsOn=["one"]))
    ended = [(e.step, e.status) for e in bench.events if isinstance(e, StepEnded)]
    assert ended == [("one", SUCCEEDED), ("two", FAILED)]


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
    states = dict.fromkeys(graph.steps, StepStatus.WAITING)
    outcomes: dict[str, bool] = {}
    while True:
        progress = Progress(graph, states, outcomes)
        unreachable, ready = progress.not_to_be_executed(), progress.ready()
        assert not set(unreachable) & set(ready)
        if not unreachable and not ready:
            break
        for name in unreachable:
            states[name] = StepStatus.NOT_EXECUTED
        if ready:
            name = chance.choice(ready)
            states[name] = chance.choice([SUCCEEDED, FAILED, StepStatus.STOPPED])
            if graph.steps[name].type == "Condition" and states[name] is SUCCEEDED:
                outcomes[name] = chance.random() < 0.5
    failed = any(state in {FAILED, StepStatus.STOPPED} for state in states.values())
    if progress.failure_is_final():
        assert failed
        assert progress.final_status() is ExecutionStatus.FAILED
    else:
        assert StepStatus.WAITING not in states.values()
        expected = ExecutionStatus.COMPLETED_WITH_FAILURES if failed else ExecutionStatus.SUCCEEDED
        assert progress.final_status() is expected
