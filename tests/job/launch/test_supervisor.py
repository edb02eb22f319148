"""The parent of a training process: it answers for ends that the child cannot report itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job import endings
from compilegate.job.endings import Ending
from compilegate.job.launch.torchrun import FailureNote, leave_note, read_note

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PARENT = """
import os, sys
from compilegate.job import CompilerRecord, Evidence, record_failure
from compilegate.job.launch.supervisor import Launch, supervise

def record(failure):
    evidence = Evidence(
        job="a-1", arm="a", seed=1, recipe={}, compiler=CompilerRecord("inductor", ran=False),
        speed=None, failure=failure.reason, ending=failure.ending.name, attempts=failure.attempts,
    )
    record_failure(os.environ["SM_OUTPUT_DATA_DIR"], evidence)

sys.exit(
    supervise(
        Launch(
            program=["-m", "child", "argument"],
            without_evidence="the training ended without writing its evidence",
            environment=os.environ,
            record=record if sys.argv[1] == "record" else None,
        )
    )
)
"""
COUNTED = """
import os, pathlib
with pathlib.Path(__file__).with_name("starts").open("a") as file:
    file.write(os.environ.get("COMPILEGATE_EARLIER_ATTEMPTS", "") + "\\n")
"""
KILLED = "import os, signal; os.kill(os.getpid(), signal.{})"
FINISHES = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "evidence")
folder.mkdir()
(folder / "evidence.json").write_text("{}")
print("child got", sys.argv[1])
"""


class Supervised:
    """A parent whose child runs a source, in a job's folders."""

    def __init__(self, folder: Path, source: str, on_failure: str, **variables: str) -> None:
        self.failure, data = folder / "output" / "failure", folder / "output" / "data"
        self.evidence, self._starts = data / "evidence", folder / "starts"
        data.mkdir(parents=True)
        (folder / "child.py").write_text(COUNTED + source)
        folders = {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
            "SM_MODEL_DIR": str(folder / "model"),
            "SM_OUTPUT_DIR": str(folder / "output"),
            "SM_OUTPUT_DATA_DIR": str(data),
        }
        self.parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, on_failure],
            env={**os.environ, **folders, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self) -> tuple[int, str, str]:
        """Its exit status, and what it printed."""
        stdout, stderr = self.parent.communicate()
        return self.parent.returncode, stdout, stderr

    @property
    def starts(self) -> list[str]:
        """For each start of the child, how earlier ones had ended."""
        return self._starts.read_text().splitlines()


OF_GPU = """
class OutOfMemoryError(RuntimeError): __module__ = 'torch'
raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')
"""


@pytest.mark.parametrize(
    ("source", "ending"),
    [
        ("raise ValueError('no such label')", endings.EXCEPTION),
        ("import sys; sys.exit(4)", endings.EXIT_STATUS),
        (KILLED.format("SIGSEGV"), endings.WRONG_CODE),
        (KILLED.format("SIGKILL"), endings.KILLED),
        (KILLED.format("SIGTERM"), endings.TERMINATED),
        ("raise MemoryError('no room for 8 GB')", endings.NO_MEMORY),
        (OF_GPU, endings.NO_GPU_MEMORY),
        ("pass", endings.NO_EVIDENCE),
        ("signal.pause()", endings.TIME_LIMIT),
    ],
    ids=lambda each: each.name if isinstance(each, Ending) else "",
)
def test_each_ending_of_the_table(tmp_path: Path, source: str, ending: Ending) -> None:
    """A candidate's is evidence, and its job ends well. Compiled code is not trusted again after a
    death that it may have caused."""
    archive = tmp_path / "machine.zip"
    archive.write_bytes(b"code")
    variables = {
        "COMPILEGATE_TIME_LIMIT": "4" if ending is endings.TIME_LIMIT else "600",
        "COMPILEGATE_COMPILE_CACHE": str(tmp_path),
    }
    job = Supervised(tmp_path, f"import signal\n{source}", "record", **variables)
    status, _, _ = job.end()
    assert archive.exists() == (ending is not endings.WRONG_CODE)
    assert job.starts == ["", ending.name][: ending.attempts]
    found = read_evidence(job.evidence).evidence
    assert (status, found.ending, found.failure) == (0, ending.name, job.failure.read_text())
    assert found.attempts == (ending.name,) * (ending.attempts - 1)


def test_what_goes_well_the_second_time_is_a_success_that_says_so(tmp_path: Path) -> None:
    """The half-written evidence and model of the first time are gone."""
    once = """
model = pathlib.Path(os.environ["SM_MODEL_DIR"])
model.mkdir(exist_ok=True)
if not os.environ.get("COMPILEGATE_EARLIER_ATTEMPTS"):
    (model / "half").touch()
    pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "evidence").mkdir()
    os.kill(os.getpid(), 9)
assert not list(model.iterdir())
"""
    job = Supervised(tmp_path, once + FINISHES, "record")
    status, stdout, stderr = job.end()
    assert (status, stdout) == (0, "child got argument\n")
    assert "killed by SIGKILL" in stderr
    assert not job.failure.exists()


def test_an_input_that_every_arm_would_fail_of_is_no_evidence(tmp_path: Path) -> None:
    source = (
        "import sys\n"
        "from compilegate.job.errors import InputError\n"
        "from compilegate.job.launch.torchrun import tell_failure\n"
        "sys.exit(tell_failure(InputError('--rate: found nan'), os.environ))\n"
    )
    job = Supervised(tmp_path, source, "record")
    status, _, stderr = job.end()
    assert (status, stderr) == (1, "error: --rate: found nan\n")
    assert not job.evidence.exists()


def test_one_of_several_machines_starts_nothing_again(tmp_path: Path) -> None:
    """The others would have to agree on it."""
    hosts = {"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-1"}
    job = Supervised(tmp_path, KILLED.format("SIGKILL"), "record", **hosts)
    job.end()
    assert job.starts == [""]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_reaches_the_child_and_is_not_evidence(
    tmp_path: Path, number: signal.Signals
) -> None:
    source = "import signal; print('ready', flush=True); signal.pause()"
    job = Supervised(tmp_path, source, "record")
    assert job.parent.stdout is not None
    assert job.parent.stdout.readline() == "ready\n"
    job.parent.send_signal(number)
    assert job.end()[0] == 128 + number
    assert not job.evidence.exists()


def test_a_request_that_comes_before_the_child_is_started_reaches_it() -> None:
    """Else it ended the parent alone, and the child went on with nobody to stop it."""
    source = (
        "import os, signal, subprocess, sys\n"
        "from compilegate.job.launch.supervisor import StopRequests\n"
        "requests = StopRequests()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "requests.pass_on_to(child)\n"
        "print(child.wait(), requests.first)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{-signal.SIGTERM} {signal.SIGTERM.value}\n"


OWN = FailureNote("out of memory")
LATER = FailureNote("the data are damaged", by_input=True)
LOST = FailureNote("Connection closed by peer", lost_peer=True)
DEAD = FailureNote("training process 1 was killed by SIGABRT", signal=6)


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        ([OWN, LATER], OWN),
        ([OWN, LOST, DEAD], OWN),  # NCCL ends a process by a signal whose peer is gone
        ([LOST, DEAD], DEAD),
        ([LOST, OWN, DEAD], OWN),
        ([LOST, LOST], LOST),
    ],
)
def test_the_first_note_is_kept_unless_it_only_lost_another_process(
    tmp_path: Path, left: list[FailureNote], kept: FailureNote
) -> None:
    assert not leave_note(OWN, {})  # of a process without a supervisor
    note = tmp_path / "note.json"
    assert read_note(note) is None
    assert all(leave_note(each, {"COMPILEGATE_FAILURE_NOTE": str(note)}) for each in left)
    assert read_note(note) == kept
    note.write_text(note.read_text()[:10])  # its writer was killed
    assert read_note(note) is None
