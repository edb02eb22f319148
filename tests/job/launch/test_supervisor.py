"""The parent of a training process: it answers for ends that the child cannot report itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from compilegate.evidence import read_evidence
from compilegate.job.evidence import EvidenceRecord

ROOT = Path(__file__).resolve().parents[3]

PARENT = """
import os, sys
from pathlib import Path
from compilegate.job import CompilerRecord, Evidence, record_failure
from compilegate.job.launch.supervisor import Launch, supervise
output = Path(os.environ["SM_OUTPUT_DATA_DIR"])
cache = os.environ.get("COMPILEGATE_COMPILE_CACHE")

def record(reason):
    compiler = CompilerRecord(name="inductor", ran=False)
    evidence = Evidence(
        job="a-1", arm="a", seed=1, recipe={}, compiler=compiler, speed=None, failure=reason
    )
    record_failure(output, evidence)

sys.exit(
    supervise(
        Launch(
            module="child",
            arguments=["argument"],
            output_data=output,
            compile_cache=Path(cache) if cache else None,
            record=record if sys.argv[1] == "record" else None,
        )
    )
)
"""


@dataclass(frozen=True)
class Supervised:
    """A supervised child process that has ended."""

    status: int
    stdout: str
    stderr: str
    output: Path

    def evidence(self) -> EvidenceRecord:
        return read_evidence(self.output / "data" / "evidence")


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a parent whose child runs the given source, in a job's folders."""
    (tmp_path / "output" / "data").mkdir(parents=True)

    def run(source: str, on_failure: str) -> subprocess.Popen[str]:
        (tmp_path / "child.py").write_text(source)
        environment = {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
            "SM_CHANNEL_PREPARED": str(tmp_path),
            "SM_MODEL_DIR": str(tmp_path / "model"),
            "SM_OUTPUT_DIR": str(tmp_path / "output"),
            "SM_OUTPUT_DATA_DIR": str(tmp_path / "output" / "data"),
        }
        return subprocess.Popen(
            [sys.executable, "-c", PARENT, on_failure],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def supervise(start: Start, tmp_path: Path) -> Callable[..., Supervised]:
    """Runs a child to its end under a parent."""

    def run(source: str, on_failure: str = "stop") -> Supervised:
        parent = start(source, on_failure)
        stdout, stderr = parent.communicate()
        return Supervised(parent.returncode, stdout, stderr, tmp_path / "output")

    return run


Supervise = Callable[..., Supervised]

KILLED = "import os, signal; os.kill(os.getpid(), signal.{})"
FINISHES = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "evidence")
folder.mkdir()
(folder / "evidence.json").write_text("{}")
print("child got", sys.argv[1])
"""


def test_a_child_that_finishes_is_a_success_and_its_output_passes_through(
    supervise: Supervise,
) -> None:
    result = supervise(FINISHES)
    assert (result.status, result.stdout, result.stderr) == (0, "child got argument\n", "")


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT"])
def test_a_killed_child_is_recorded_as_evidence(supervise: Supervise, name: str) -> None:
    result = supervise(KILLED.format(name), on_failure="record")
    assert result.status == 0
    evidence = result.evidence().evidence
    assert evidence.failure is not None
    assert evidence.failure.startswith(f"the training process was killed by {name}")
    assert (evidence.arm, evidence.seed, evidence.speed) == ("a", 1, None)
    assert not evidence.compiler.ran
    assert not (result.output / "failure").exists()


@pytest.mark.parametrize(("name", "kept"), [("SIGKILL", True), ("SIGILL", False)])
def test_compiled_code_is_not_trusted_again_after_a_death_that_it_may_have_caused(
    supervise: Supervise,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kept: bool,
) -> None:
    archive = tmp_path / "machine.tar"
    archive.write_bytes(b"code")
    monkeypatch.setenv("COMPILEGATE_COMPILE_CACHE", str(tmp_path))
    result = supervise(KILLED.format(name), on_failure="record")
    assert archive.exists() == kept
    assert ("machine.tar was removed" in result.stdout) != kept


def test_a_killed_child_stops_the_job_with_the_reason(supervise: Supervise) -> None:
    result = supervise(KILLED.format("SIGSEGV"))
    assert result.status == 1
    reason = "the training process was killed by SIGSEGV"
    assert (result.output / "failure").read_text() == reason
    assert result.stderr == f"error: {reason}\n"


def test_a_child_that_reported_its_failure_is_not_reported_twice(supervise: Supervise) -> None:
    result = supervise("import sys; print('mine', file=sys.stderr); sys.exit(3)", "record")
    assert (result.status, result.stderr) == (1, "mine\n")
    assert not (result.output / "data" / "evidence").exists()


def test_a_child_that_cannot_start_is_recorded_with_its_exit_status(supervise: Supervise) -> None:
    result = supervise("import a_library_that_is_not_there", on_failure="record")
    assert result.status == 0
    assert result.evidence().evidence.failure == (
        "the training process ended with exit status 1; its log says more"
    )
    assert "a_library_that_is_not_there" in result.stderr


def test_a_child_that_leaves_no_evidence_has_failed(supervise: Supervise) -> None:
    result = supervise("pass")
    assert result.status == 1
    assert "ended without writing its evidence" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_reaches_the_child_and_is_not_evidence(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    waits = "import time; print('ready', flush=True); time.sleep(120)"
    parent = start(waits, "record")
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.send_signal(number)
    parent.communicate()
    assert parent.returncode == 128 + number
    assert not (tmp_path / "output" / "data" / "evidence").exists()


def test_a_request_that_comes_before_the_child_is_started_reaches_it() -> None:
    """Else it ended the parent alone, and the child went on with nobody to stop it."""
    source = (
        "import os, signal, subprocess, sys\n"
        "from compilegate.job.launch.stop_requests import StopRequests\n"
        "requests = StopRequests()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
        "requests.pass_on_to(child)\n"
        "print(child.wait(), requests.first)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{-signal.SIGTERM} {signal.SIGTERM.value}\n"
