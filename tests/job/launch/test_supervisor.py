"""The parent of a training process: it answers for ends that the child cannot report itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job import endings
from compilegate.job.endings import Ending
from compilegate.job.evidence import EvidenceRecord

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]

PARENT = """
import os, sys
from pathlib import Path
from compilegate.job import CompilerRecord, Evidence, record_failure
from compilegate.job.launch.supervisor import Launch, supervise
output = Path(os.environ["SM_OUTPUT_DATA_DIR"])

def record(failure):
    compiler = CompilerRecord(name="inductor", ran=False)
    evidence = Evidence(
        job="a-1", arm="a", seed=1, recipe={}, compiler=compiler, speed=None,
        failure=failure.reason, ending=failure.ending.name, attempts=failure.attempts,
    )
    record_failure(output, evidence)

sys.exit(
    supervise(
        Launch(
            program=["-m", "child", "argument"],
            without_evidence="the training ended without writing its evidence",
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


ENDS: Mapping[str, tuple[str, Ending]] = {
    "exception": ("raise ValueError('no such label')", endings.EXCEPTION),
    "exit status": ("import sys; sys.exit(4)", endings.EXIT_STATUS),
    "SIGSEGV": (KILLED.format("SIGSEGV"), endings.WRONG_CODE),
    "SIGABRT": (KILLED.format("SIGABRT"), endings.WRONG_CODE),
    "SIGKILL": (KILLED.format("SIGKILL"), endings.KILLED),
    "SIGTERM": (KILLED.format("SIGTERM"), endings.TERMINATED),
    "memory": ("raise MemoryError('no room for 8 GB')", endings.NO_MEMORY),
    "memory of torch": (
        """raise RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")""",
        endings.NO_MEMORY,
    ),
    "GPU": (
        "class OutOfMemoryError(RuntimeError): __module__ = 'torch'\n"
        "raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')",
        endings.NO_GPU_MEMORY,
    ),
    "no evidence": ("pass", endings.NO_EVIDENCE),
    "time limit": ("import time; time.sleep(600)", endings.TIME_LIMIT),
}
"""Each row of the table: a training that ends so, every time."""
COUNTED = """
import os, pathlib
starts = pathlib.Path(__file__).with_name("starts")
with starts.open("a") as file:
    file.write(os.environ.get("COMPILEGATE_EARLIER_ATTEMPTS", "") + "\\n")
"""


@pytest.mark.parametrize("name", ENDS)
def test_a_candidate_that_ends_so_is_evidence_and_its_job_ends_well(
    supervise: Supervise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source, ending = ENDS[name]
    monkeypatch.setenv("COMPILEGATE_TIME_LIMIT", "4" if name == "time limit" else "600")
    result = supervise(COUNTED + source, on_failure="record")
    assert result.status == 0
    evidence = result.evidence().evidence
    assert (evidence.ending, evidence.attempts) == (
        ending.name,
        (ending.name,) * (ending.attempts - 1),
    )
    earlier = (tmp_path / "starts").read_text().splitlines()
    assert earlier == ["", ending.name][: ending.attempts]
    assert (evidence.arm, evidence.seed, evidence.speed) == ("a", 1, None)
    assert evidence.failure == (result.output / "failure").read_text()


@pytest.mark.parametrize("name", [name for name in ENDS if name != "time limit"])
def test_a_baseline_that_ends_so_fails_its_job(
    supervise: Supervise, tmp_path: Path, name: str
) -> None:
    source, ending = ENDS[name]
    result = supervise(COUNTED + source)
    assert result.status > 0
    assert len((tmp_path / "starts").read_text().splitlines()) == ending.attempts
    assert (result.output / "failure").read_text()
    assert not (result.output / "data" / "evidence").exists()


def test_what_goes_well_the_second_time_is_a_success_that_says_so(
    supervise: Supervise, tmp_path: Path
) -> None:
    """The half-written evidence and model of the first time are gone."""
    once = """
import os, pathlib
once = pathlib.Path(__file__).with_name("once")
model = pathlib.Path(os.environ["SM_MODEL_DIR"])
model.mkdir(exist_ok=True)
if not once.exists():
    once.touch()
    (model / "half").touch()
    pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "evidence").mkdir()
    os.kill(os.getpid(), 9)
assert not list(model.iterdir())
"""
    result = supervise(once + FINISHES, on_failure="record")
    assert (result.status, result.stdout) == (0, "child got argument\n")
    assert "killed by SIGKILL" in result.stderr
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


def test_a_request_that_every_arm_would_fail_of_is_no_evidence(supervise: Supervise) -> None:
    source = (
        "import os, sys\n"
        "from compilegate.job.errors import InputError\n"
        "from compilegate.job.launch.failure import tell_failure\n"
        "sys.exit(tell_failure(InputError('--rate: found nan'), os.environ))\n"
    )
    result = supervise(source, on_failure="record")
    assert (result.status, result.stderr) == (1, "error: --rate: found nan\n")
    assert not (result.output / "data" / "evidence").exists()


def test_one_of_several_machines_starts_nothing_again(
    supervise: Supervise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others would have to agree on it."""
    monkeypatch.setenv("SM_HOSTS", '["algo-1", "algo-2"]')
    monkeypatch.setenv("SM_CURRENT_HOST", "algo-1")
    supervise(COUNTED + KILLED.format("SIGKILL"), on_failure="record")
    assert (tmp_path / "starts").read_text() == "\n"


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
        "from compilegate.job.launch.process import StopRequests\n"
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
