"""Whatever ends the runner, no job survives it, and the execution can be resumed."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
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
from compilegate.local.jobs.leases import CorePool, available_cpus, physical_cores

pytestmark = pytest.mark.slow

RUNNER = """
import sys
from pathlib import Path
from compilegate.execution.events import StopAsked
from compilegate.local import ImageSources, LocalExecutor
definition, home, grace = sys.argv[1:]
executor = LocalExecutor(
    definition=Path(definition).read_bytes(), home=Path(home),
    images=ImageSources(patterns=(("*", "here"),)), shared=[Path(home).parent],
    grace_seconds=float(grace),
)
def tell(event):
    if isinstance(event, StopAsked):
        print(event.sentence)
result = executor.follow(executor.start("tests", {}), tell)
print(result.status, result.failure)
"""
MOST_SECONDS = 120
"""For what takes a second on a machine that is not busy."""


@dataclass
class Interruption:
    """A runner in a process of its own, whose second step says it runs and then waits."""

    bench: Any
    runners: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(self.bench.home.parent)

    def steps(self, on_term: str = "signal.SIG_DFL") -> list[dict[str, Any]]:
        """first -> second -> third; the second waits unless the file `go` exists."""
        code = f"""
            import os, select, signal, subprocess, sys
            folder = {str(self.folder)!r}
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
        count = f"open({str(self.folder / 'first-ran')!r}, 'a').write('x')"
        return [
            self.bench.processing("first", count),
            self.bench.training("second", code, DependsOn=["first"]),
            self.bench.processing("third", DependsOn=["second"]),
        ]

    def start(self, steps: list[dict[str, Any]], grace: float) -> list[int]:
        """Start the runner; return (job, its child, its launcher) once the second step runs."""
        definition = self.folder / "definition.json"
        definition.write_text(self.bench.definition(*steps))
        os.mkfifo(self.folder / "started")
        command = [sys.executable, "-c", RUNNER, str(definition), str(self.bench.home), str(grace)]
        self.runners.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return [int(pid) for pid in self.hear("started").split()]

    def hear(self, pipe: str) -> str:
        """What a job says into a named pipe; fail, rather than wait for ever, when it is silent."""
        reader = os.open(self.folder / pipe, os.O_RDONLY | os.O_NONBLOCK)
        heard, _, _ = select.select([reader], [], [], MOST_SECONDS)
        assert heard, f"nothing was said into {pipe}"
        os.set_blocking(reader, True)
        with open(reader, encoding="utf-8") as file:  # noqa: PTH123 - it is a descriptor
            return file.read()

    def go(self) -> None:
        """Let the second step end by itself the next time."""
        (self.folder / "go").touch()


@pytest.fixture
def interruption(bench: Any) -> Iterator[Interruption]:
    made = Interruption(bench)
    yield made
    for runner in made.runners:
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


@pytest.mark.slow
def test_a_killed_runner_leaves_no_process_and_a_resumable_execution(
    interruption: Interruption,
) -> None:
    bench, steps = interruption.bench, interruption.steps()
    pids = interruption.start(steps, grace=5)
    (running,) = list_executions(bench.home)
    assert running.status is ExecutionStatus.EXECUTING
    with pytest.raises(ExecutionError, match="is running in another process"):
        bench.run(*steps, resume=running.execution_id)

    interruption.runners[0].kill()
    interruption.runners[0].wait()  # its jobs may end before the last of its threads has
    for pid in pids:
        await_end(pid)

    left = LocalExecutor(home=bench.home).read(running.execution_id)
    assert left.status is ExecutionStatus.STOPPED
    assert latest_unfinished(bench.home, "tests") == left

    interruption.go()
    result = bench.run(*steps, resume=running.execution_id)
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.execution_id == running.execution_id
    assert {name: step.attempts for name, step in result.steps.items()} == {
        "first": 1,
        "second": 2,
        "third": 1,
    }
    assert (interruption.folder / "first-ran").read_text() == "x"
    assert LocalExecutor(home=bench.home).read(running.execution_id) == result
    assert latest_unfinished(bench.home, "tests") is None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_runner_stops_its_jobs_and_says_so(
    interruption: Interruption, number: signal.Signals
) -> None:
    bench, steps = interruption.bench, interruption.steps(on_term="signal.SIG_IGN")
    job, child, _ = interruption.start(steps, grace=0.1)
    runner = interruption.runners[0]
    runner.send_signal(number)
    output, _ = runner.communicate(timeout=MOST_SECONDS)
    waiting, stopped = output.splitlines()
    assert waiting.startswith(f"{number.name}: waiting up to 0.1 s for second to end; ")
    assert stopped == f"Stopped stopped by {number.name}"
    for pid in (job, child):
        await_end(pid)
    (result,) = list_executions(bench.home)
    assert result.steps["second"].status is StepStatus.STOPPED
    assert result.steps["third"].status is StepStatus.WAITING

    interruption.go()
    assert bench.run(*steps, resume=result.execution_id).status is ExecutionStatus.SUCCEEDED


@pytest.mark.slow
def test_a_second_ctrl_c_kills_a_job_that_ignores_the_first(interruption: Interruption) -> None:
    steps = interruption.steps(on_term="lambda *_: say('asked', 'x')")
    os.mkfifo(interruption.folder / "asked")
    job, child, _ = interruption.start(steps, grace=600)
    runner = interruption.runners[0]
    runner.send_signal(signal.SIGINT)
    assert interruption.hear("asked") == "x"
    runner.send_signal(signal.SIGINT)
    output, _ = runner.communicate(timeout=MOST_SECONDS)
    assert output.splitlines() == [
        "SIGINT: waiting up to 600 s for second to end; Ctrl-C again kills it at once",
        "SIGINT again: killing second",
        "Stopped stopped by SIGINT",
    ]
    for pid in (job, child):
        await_end(pid)


@pytest.mark.slow
def test_the_cores_of_a_killed_runner_are_free_only_when_its_job_is_gone(
    interruption: Interruption,
) -> None:
    steps = interruption.steps(on_term="lambda *_: say('asked', 'x')")
    os.mkfifo(interruption.folder / "asked")
    job, _, launcher = interruption.start(steps, grace=60)
    interruption.runners[0].kill()
    assert interruption.hear("asked") == "x"

    pool = CorePool(physical_cores(available_cpus()), interruption.bench.home / "locks" / "cores")
    assert pool.acquire_exclusive(len(pool.cores)) is None
    os.kill(job, signal.SIGKILL)
    await_end(launcher)
    lease = pool.acquire_exclusive(len(pool.cores))
    assert lease is not None
    lease.release()


def test_a_condition_keeps_its_decision_when_the_execution_is_resumed(bench: Any) -> None:
    ready = bench.home.parent / "ready"
    code = f"import os, sys; sys.exit(0 if os.path.exists({str(ready)!r}) else 1)"
    steps = [
        bench.condition("decide", bench.equals(1, 1), then=[bench.processing("work", code)]),
    ]
    failed = bench.run(*steps)
    assert failed.status is ExecutionStatus.FAILED
    ready.touch()
    result = bench.run(*steps, resume=failed.execution_id)
    assert result.status is ExecutionStatus.SUCCEEDED
    assert result.steps["decide"] == failed.steps["decide"]
    assert result.steps["work"].attempts == 2


def test_a_failed_execution_goes_on_with_its_own_definition_when_none_is_given(bench: Any) -> None:
    ready = bench.home.parent / "ready"
    code = f"import os, sys; sys.exit(0 if os.path.exists({str(ready)!r}) else 1)"
    failed = bench.run(bench.processing("kept"), bench.processing("work", code, DependsOn=["kept"]))
    assert latest_unfinished(bench.home, "tests") == failed
    ready.touch()
    images = ImageSources(patterns=(("*", "here"),))
    executor = LocalExecutor(home=bench.home, images=images, shared=[bench.home.parent])
    result = executor.follow(executor.resume(failed.execution_id, {}))
    assert result.status is ExecutionStatus.SUCCEEDED
    assert {name: step.attempts for name, step in result.steps.items()} == {"kept": 1, "work": 2}
    assert latest_unfinished(bench.home, "tests") is None


def test_an_execution_that_a_fail_step_ended_is_not_offered_for_resumption(bench: Any) -> None:
    """It would read the same verdict and fail again."""
    assert bench.run(bench.fail("stop")).failed_by == "fail-step"
    assert latest_unfinished(bench.home, "tests") is None


def test_a_new_execution_needs_a_definition(bench: Any) -> None:
    with pytest.raises(ExecutionError, match="a new execution needs a definition"):
        LocalExecutor(home=bench.home).start("tests", {})


def test_only_the_same_unfinished_execution_can_be_resumed(bench: Any) -> None:
    parameters = [{"Name": "Rate", "Type": "Float", "DefaultValue": 0.5}]
    steps = [bench.fail("stop")]
    done = bench.run(bench.condition("decide", bench.equals(1, 1)))
    failed = bench.run(*steps, parameters=parameters)
    with pytest.raises(ExecutionError, match="there is no execution 'nope'"):
        bench.run(*steps, resume="nope")
    with pytest.raises(ExecutionError, match="the definition is not the one"):
        bench.run(bench.fail("other"), resume=failed.execution_id)
    with pytest.raises(ExecutionError, match="the parameters are not those"):
        bench.run(*steps, parameters=parameters, given={"Rate": 0.1}, resume=failed.execution_id)
    with pytest.raises(ExecutionError, match="nothing to resume"):
        bench.run(bench.condition("decide", bench.equals(1, 1)), resume=done.execution_id)


def test_a_listener_that_fails_ends_the_run_and_its_jobs(bench: Any) -> None:
    def listener(event: Any) -> None:
        if isinstance(event, StepOutput):
            raise RuntimeError(event.line)

    code = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
    with pytest.raises(RuntimeError) as caught:
        bench.run(bench.processing("job", code), listener=listener)
    await_end(int(str(caught.value)))
    (result,) = list_executions(bench.home)
    assert result.status is ExecutionStatus.STOPPED
