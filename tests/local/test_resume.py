"""Whatever ends the runner, no job survives it; the execution goes on as it was started."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.events import StepOutput
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import (
    ExecutionError,
    ImageSources,
    LocalExecutor,
    latest_unfinished,
    list_executions,
)
from compilegate.local.home.journal import Journal, new_execution
from compilegate.local.jobs.leases import available_cpus, core_pool, physical_cores
from tests.local.conftest import PIPELINE, Json, Workbench, log_of

pytestmark = pytest.mark.slow

MOST_SECONDS = 120
"""For what takes a second on a machine that is not busy."""


@dataclass
class Interruption:
    """A runner in a process of its own, whose second step says it runs and then waits."""

    runner: subprocess.Popen[str]
    job: int
    others: list[int]
    """The job's child, and its launcher."""

    def assert_ended(self) -> None:
        for pid in (self.job, *self.others):
            await_end(pid)


Interrupt = Callable[[list[Json], float], Interruption]


def steps_of(bench: Workbench, on_term: str) -> list[Json]:
    """first -> second -> third; the second waits unless the file `go` exists."""
    code = f"""
        import os, select, signal, subprocess, sys
        folder = {str(bench.folder)!r}
        def say(pipe, text):
            with open(os.path.join(folder, pipe), "w") as file:
                file.write(text)
        if not os.path.exists(os.path.join(folder, "go")):
            signal.signal(signal.SIGTERM, {on_term})
            child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
            say("started", f"{{os.getpid()}} {{child.pid}} {{os.getppid()}}")
            while True:  # a signal just before pause() would be heard by nobody
                select.select([], [], [], 1)
    """
    return [
        bench.processing("first", f"open({str(bench.folder / 'ran')!r}, 'a').write('x')"),
        bench.training("second", code, DependsOn=["first"]),
        bench.processing("third", DependsOn=["second"]),
    ]


@pytest.fixture
def interrupt(bench: Workbench) -> Iterator[Interrupt]:
    started: list[subprocess.Popen[str]] = []
    for pipe in ("started", "terminated"):
        os.mkfifo(bench.folder / pipe)

    def start(steps: list[Json], grace: float) -> Interruption:
        started.append(bench.start(*steps, grace_seconds=grace))
        job, *others = map(int, (bench.folder / "started").read_text().split())
        return Interruption(started[-1], job, others)

    yield start
    for runner in started:
        runner.kill()
        runner.communicate()


def await_end(pid: int) -> None:
    """Block until a process that is no child of ours has ended; fail after a while."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([handle], [], [], MOST_SECONDS)
    os.close(handle)
    assert ended, f"process {pid} is still there"


def test_a_killed_runner_leaves_nothing_running(bench: Workbench, interrupt: Interrupt) -> None:
    """Its job ignores what asks it to end; until it is gone, nobody gets its cores."""
    steps = steps_of(bench, "lambda *_: say('terminated', 'x')")
    running = interrupt(steps, 60)
    (execution,) = list_executions(bench.home)
    assert execution.status is ExecutionStatus.EXECUTING
    with pytest.raises(ExecutionError, match="is running in another process"):
        bench.run(*steps, resume=execution.execution_id)

    running.runner.kill()
    running.runner.wait()  # its jobs may end before the last of its threads has
    assert (bench.folder / "terminated").read_text() == "x"
    cores = physical_cores(available_cpus())
    pool = core_pool(cores, bench.home / "locks" / "cores")
    assert pool.acquire(len(cores)) is None
    os.kill(running.job, signal.SIGKILL)
    running.assert_ended()
    lease = pool.acquire(len(cores))
    assert lease is not None
    lease.release()

    left = LocalExecutor(home=bench.home).read(execution.execution_id)
    assert left.status is ExecutionStatus.STOPPED
    assert latest_unfinished(bench.home, PIPELINE) == left
    (bench.folder / "go").touch()
    result = bench.succeed(*steps, resume=execution.execution_id)
    attempts = {name: step.attempts for name, step in result.steps.items()}
    assert attempts == {"first": 1, "second": 2, "third": 1}
    assert (bench.folder / "ran").read_text() == "x"
    assert LocalExecutor(home=bench.home).read(execution.execution_id) == result
    assert latest_unfinished(bench.home, PIPELINE) is None


def test_a_stopped_runner_stops_its_jobs(bench: Workbench, interrupt: Interrupt) -> None:
    running = interrupt(steps_of(bench, "signal.SIG_IGN"), 0.1)
    running.runner.send_signal(signal.SIGTERM)
    output, _ = running.runner.communicate(timeout=MOST_SECONDS)
    assert output.splitlines()[-1] == "Stopped stopped by SIGTERM"
    running.assert_ended()
    (result,) = list_executions(bench.home)
    assert result.steps["second"].status is StepStatus.STOPPED
    assert result.steps["third"].status is StepStatus.WAITING


def test_a_second_ctrl_c_kills_the_job(bench: Workbench, interrupt: Interrupt) -> None:
    running = interrupt(steps_of(bench, "lambda *_: say('terminated', 'x')"), 600)
    running.runner.send_signal(signal.SIGINT)
    assert (bench.folder / "terminated").read_text() == "x"
    running.runner.send_signal(signal.SIGINT)
    output, _ = running.runner.communicate(timeout=MOST_SECONDS)
    first, again, end = output.splitlines()
    assert "Ctrl-C again kills it" in first
    assert "killing second" in again
    assert end == "Stopped stopped by SIGINT"
    running.assert_ended()


def test_a_listener_that_fails_ends_the_run_and_its_jobs(bench: Workbench) -> None:
    def listener(event: Any) -> None:
        if isinstance(event, StepOutput):
            raise RuntimeError(event.line)

    code = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
    with pytest.raises(RuntimeError) as caught:
        bench.run(bench.processing("job", code), listener=listener)
    await_end(int(str(caught.value)))
    (result,) = list_executions(bench.home)
    assert result.status is ExecutionStatus.STOPPED


def test_what_cannot_be_resumed_is_named(bench: Workbench) -> None:
    rate = [{"Name": "Rate", "Type": "Float", "DefaultValue": 0.5}]
    stop, decide = bench.fail("stop"), bench.condition("decide", bench.equals(1, 1))
    done = bench.run(decide).execution_id
    ends = bench.run(stop, parameters=rate).execution_id
    # It would read the same verdict and fail again, so it is not offered.
    assert latest_unfinished(bench.home, PIPELINE) is None
    for steps, options, reason in (
        ([], {}, "a new execution needs a definition"),
        ([stop], {"resume": "nope"}, "there is no execution 'nope'"),
        ([bench.fail("other")], {"resume": ends}, "the definition is not the one"),
        (
            [stop],
            {"parameters": rate, "given": {"Rate": 0.1}, "resume": ends},
            "the parameters are not those",
        ),
        ([decide], {"resume": done}, "nothing to resume"),
    ):
        with pytest.raises(ExecutionError, match=reason):
            bench.run(*steps, **options)


OTHER_OPTIONS: list[tuple[Json, str]] = [
    ({"variables": {"SEED": "8"}}, "--env SEED"),
    ({"variables": {"OTHER": "1"}}, "--env OTHER"),
    ({"commands": {"first": "true"}}, "--command first"),
    ({"images": ImageSources(patterns=(("*:1", "here"),))}, "--image *:1"),
    ({"cores_per_job": 2}, "--cores-per-job 2"),
    ({"use_cache": False}, "--no-cache"),
    ({"shared": (Path("elsewhere"),)}, "--share"),
    ({"gpus": ("0",)}, "gpus"),
    ({"skip": ("second",)}, "--skip second"),
    ({"given_models": {"m": {"ModelName": "m"}}}, "--model m"),
]


def test_a_resumed_execution_has_the_options_that_it_was_started_with(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are refused by name, and a variable of the shell has to be there again."""
    show = "import os, sys; print('seed', os.environ['SEED'], os.environ['SECRET'])"
    wait = f"sys.exit(not os.path.exists({str(bench.folder / 'ready')!r}))"
    monkeypatch.setenv("SECRET", "hunter2-and-more")
    failed = bench.run(
        bench.processing("first", show),
        bench.condition(
            "decide", bench.equals(1, 1), then=[bench.processing("second", f"{show}; {wait}")]
        ),
        {"Name": "foreign", "Type": "Teleport", "Arguments": {}},
        skip=("foreign",),
        variables={"SEED": "7", "SECRET": "hunter2-and-more"},
        cores_per_job=1,
    )
    assert failed.status is ExecutionStatus.FAILED
    unfinished = latest_unfinished(bench.home, PIPELINE)
    assert unfinished is not None
    assert unfinished.execution_id == failed.execution_id
    identifier = failed.execution_id
    for option, named in OTHER_OPTIONS:
        executor = LocalExecutor(home=bench.home, **option)
        for act in (lambda it: it.resume(identifier, {}), lambda it: it.follow(identifier)):
            with pytest.raises(ExecutionError) as refused:
                act(executor)
            (problem,) = refused.value.problems
            assert problem.startswith(named)
            assert identifier in problem

    executor = LocalExecutor(home=bench.home)  # no definition, not even an image
    path = bench.home / "executions" / identifier / "options.json"
    kept = path.read_text()
    assert "hunter2" not in kept
    monkeypatch.setenv("SECRET", "another")
    with pytest.raises(ExecutionError, match="the shell's variable SECRET"):
        executor.resume(identifier, {})
    monkeypatch.setenv("SECRET", "hunter2-and-more")
    path.write_text(json.dumps([1]))
    with pytest.raises(ExecutionError, match=r"options\.json cannot be read"):
        executor.resume(identifier, {})
    path.write_text(kept)

    (bench.folder / "ready").touch()
    result = executor.follow(executor.resume(identifier, {}))
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert latest_unfinished(bench.home, PIPELINE) is None
    for name, attempts in {"first": 1, "second": 2}.items():
        assert log_of(result, name) == "seed 7 hunter2-and-more\n"
        assert result.steps[name].attempts == attempts
    assert result.steps["decide"] == failed.steps["decide"]
    assert result.steps["foreign"].status is StepStatus.NOT_EXECUTED


def begun(home: Path, name: str, started: float, **changes: Any) -> None:
    journal = Journal(home / "executions" / name)
    journal.write_execution(new_execution(journal.folder, "topics", {}, started))
    path = journal.folder / "execution.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"status": "Stopped"} | changes))


def test_the_newest_unfinished_execution_is_continued(tmp_path: Path) -> None:
    now = time.time()
    assert latest_unfinished(tmp_path, "topics") is None
    begun(tmp_path, "older", now - 60)
    begun(tmp_path, "finished", now - 30, status="Succeeded")
    begun(tmp_path, "refused", now - 20, status="Failed", failed_by="fail-step")
    begun(tmp_path, "another", now - 10, pipeline_name="other")
    begun(tmp_path, "misdated", now + 86_400)
    for newest in ({}, {"status": "Failed", "failed_by": "job"}, {"status": "Executing"}):
        begun(tmp_path, "newest", now - 40, **newest)
        found = latest_unfinished(tmp_path, "topics")
        assert found is not None
        assert found.execution_id == "newest"
