"""How a script of a workload's own is started: on several machines, and as a candidate."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import Origin

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
MACHINES = ["127.0.0.1", "algo-2"]
"""The second name is never asked for: machines meet at the first one."""
SCRIPT = """
import json, os, sys
told = [os.environ["RANK"], os.environ["WORLD_SIZE"], sys.argv[1:]]
os.write(1, (json.dumps(told) + "\\n").encode())  # in one piece: all write to one pipe
"""
LEAVING = """
import os, pathlib
folder = pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "evidence")
folder.mkdir(exist_ok=True)
(folder / "evidence.json").write_text("{}")  # what it holds is the gate's question
"""


def start(script: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    told = {"PYTHONPATH": str(ROOT), "COMPILEGATE_SCRIPT": str(script), **variables}
    return subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "compilegate" / "job" / "launch" / "own_script.py"),
            *arguments,
        ],
        env={**os.environ, **told},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_each_process_of_two_machines_has_a_rank_and_the_script_s_own_arguments(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT + LEAVING)
    arguments = ["--title", "two words; $HOME"]
    several = {
        "SM_HOSTS": json.dumps(MACHINES),
        "COMPILEGATE_PROCESSES": "2",
        "SM_OUTPUT_DATA_DIR": str(tmp_path),
    }
    launched = [
        start(script, *arguments, SM_CURRENT_HOST=machine, **several) for machine in MACHINES
    ]
    told = [json.loads(line) for each in launched for line in each.communicate()[0].splitlines()]
    assert sorted(told) == [[str(rank), "4", arguments] for rank in range(4)]
    assert [each.returncode for each in launched] == [0, 0]


CANDIDATE = ("--compiler", "inductor", "--seed", "7")


def candidate(
    script: Path, text: str, arguments: Sequence[str] = CANDIDATE, **variables: str
) -> subprocess.Popen[str]:
    """Starts a script that trains a candidate, with a folder for its evidence beside it."""
    script.write_text(text)
    told = {"TRAINING_JOB_NAME": "job", "COMPILEGATE_ARM": "compiled"}
    output = {"SM_OUTPUT_DATA_DIR": str(script.parent)}
    return start(script, *arguments, **told, **output, **variables)


TELLING = """
import json
from compilegate.job.script.told import read_told
import os
told = read_told(os.environ)
print(json.dumps({
    "seed": told.seed, "compiler": told.compiler, "options": told.options,
    "batch_size": told.batch_size, "baseline": {"batch_size": told.baseline.batch_size},
    "recipe": told.recipe,
}))
"""


def test_a_script_is_told_what_its_job_is_and_all_hyperparameters_as_they_were_declared(
    tmp_path: Path,
) -> None:
    job = {"seed": 7, "compiler": "inductor", "batch_size": 8, "baseline": {"batch_size": 4}}
    # As SageMaker's toolkit passes them on: it writes what it decoded as Python does.
    given = ["--compiler", "inductor", "--mirror", "True", "--rate", "0.01", "-n", "2"]
    launched = candidate(
        tmp_path / "train.py",
        TELLING + LEAVING,
        [*given, "--t", "a b"],
        COMPILEGATE_JOB=json.dumps(job),
        SM_MODEL_DIR=str(tmp_path),
        PYTHONPATH="",
    )
    stdout, stderr = launched.communicate()
    assert launched.returncode == 0, stderr
    assert json.loads(stdout) == {
        **job,
        "options": {},
        "baseline": {"batch_size": 4},
        "recipe": {"compiler": "inductor", "mirror": True, "rate": 0.01, "n": 2, "t": "a b"},
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "raise ValueError('shapes changed')",
            "the training ended with exit status 1: ValueError: shapes changed",
        ),
        ("import sys; sys.exit(4)", "the training ended with exit status 4; its log says more"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the training was killed by SIGKILL; the machine may have run out of memory "
            "(attempt 2; before, it ended by: killed)",
        ),
    ],
)
def test_a_candidate_that_fails_is_evidence_with_the_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    job = candidate(tmp_path / "train.py", text, COMPILEGATE_ON_FAILURE="record")
    stdout, stderr = job.communicate()
    assert job.returncode == 0, stderr
    evidence = read_evidence(tmp_path / "evidence").evidence
    assert (evidence.job, evidence.arm, evidence.seed) == ("job", "compiled", 7)
    assert (evidence.compiler.name, evidence.compiler.ran) == ("inductor", False)
    assert evidence.failure == reason
    assert f"recorded: arm compiled left no model: {reason}" in stdout
    assert "Traceback" in stderr or "ValueError" not in text


@pytest.mark.parametrize(("name", "kept"), [("SIGKILL", True), ("SIGSEGV", False)])
def test_compiled_code_is_not_trusted_again_after_a_death_that_it_may_have_caused(
    tmp_path: Path, name: str, kept: bool
) -> None:
    archive = tmp_path / "machine.tar"
    archive.write_bytes(b"code")
    text = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    job = candidate(tmp_path / "train.py", text, COMPILEGATE_COMPILE_CACHE=str(tmp_path))
    stdout, stderr = job.communicate()
    assert job.returncode > 128, stderr
    assert (archive.exists(), "machine.tar was removed" in stdout) == (kept, not kept)


@pytest.mark.slow
def test_the_signal_that_killed_one_of_several_processes_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "machine.tar").write_bytes(b"code")
    text = """
import os, signal
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGILL)
signal.pause()
"""
    job = candidate(
        tmp_path / "train.py",
        text,
        COMPILEGATE_ON_FAILURE="record",
        COMPILEGATE_PROCESSES="2",
        COMPILEGATE_COMPILE_CACHE=str(tmp_path),
    )
    _, stderr = job.communicate()
    assert job.returncode == 0, stderr
    failure = read_evidence(tmp_path / "evidence").evidence.failure
    assert failure is not None
    assert failure.startswith("training process 1 was killed by SIGILL")
    assert not (tmp_path / "machine.tar").exists()


def test_a_failure_that_is_not_to_be_recorded_is_the_job_s_own(tmp_path: Path) -> None:
    job = candidate(tmp_path / "train.py", "import sys; sys.exit(4)")
    job.communicate()
    assert job.returncode == 4
    assert not (tmp_path / "evidence").exists()


def test_a_job_that_is_stopped_says_nothing_of_its_arm(tmp_path: Path) -> None:
    text = "import time; print('ready', flush=True); time.sleep(120)"
    job = candidate(tmp_path / "train.py", text, COMPILEGATE_ON_FAILURE="record")
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    job.terminate()
    job.communicate()
    assert job.returncode == 128 + 15
    assert not (tmp_path / "evidence").exists()


PRINTING = """
import sys
print("bleu = 1.5")
sys.stdout.flush()
print("bleu = 27.25, 101.5 rows/s", end="")  # the last value counts, without a line's end too
print("loss nan", file=sys.stderr)
"""
PRINTED = {
    "COMPILEGATE_PRINTED_bleu": "bleu = ([0-9.]+)",
    "COMPILEGATE_PRINTED_samples_per_second": "([0-9.]+) rows/s",
    "COMPILEGATE_PRINTED_loss": r"loss (\S+)",
    "COMPILEGATE_PRINTED_other": "other = ([0-9.]+)",
}


def test_what_a_script_only_prints_becomes_evidence_that_says_so(tmp_path: Path) -> None:
    job = candidate(tmp_path / "train.py", PRINTING, **PRINTED)
    stdout, stderr = job.communicate()
    assert job.returncode == 0, stderr
    assert stdout.startswith("bleu = 1.5\nbleu = 27.25, 101.5 rows/s")  # and passes on as it is
    record = read_evidence(tmp_path / "evidence")
    assert (record.evidence.origin, record.steps, record.examples) == (Origin.PRINTED, None, None)
    metrics = dict(record.evidence.metrics)
    assert math.isnan(metrics.pop("loss"))  # which the gate refuses with its own reason
    assert metrics == {"bleu": 27.25, "average_samples_per_second": 101.5}
    assert record.evidence.printed["bleu"] == (1.5, 27.25)
    assert (record.evidence.compiler, record.evidence.recipe["compiler"]) == (None, "inductor")


PERCENT = """
import signal
print("epoch 1: test accuracy 95.2967%", flush=True)
signal.pause()  # it would train for hours
"""


@pytest.mark.parametrize("recorded", [{}, {"COMPILEGATE_ON_FAILURE": "record"}])
def test_an_accuracy_above_one_ends_the_job_as_soon_as_it_is_printed(
    tmp_path: Path, recorded: dict[str, str]
) -> None:
    """Of no arm is that evidence: all of them print alike."""
    (tmp_path / "output").mkdir()
    told = {"COMPILEGATE_PRINTED_test_accuracy": "accuracy ([0-9.]+)", **recorded}
    job = candidate(tmp_path / "train.py", PERCENT, **told, SM_OUTPUT_DIR=str(tmp_path / "output"))
    job.communicate()
    assert job.returncode == 1
    assert not (tmp_path / "evidence").exists()
    assert (tmp_path / "output" / "failure").read_text() == (
        "test_accuracy was printed as 95.2967 (in the line 'epoch 1: test accuracy 95.2967%'), "
        "expected a fraction of 1 at most: put percent = ['test_accuracy'] into [program] if it is "
        "printed in per cent, or let the expression of program.metrics.test_accuracy catch another "
        "number"
    )


def test_what_is_declared_as_a_percentage_is_a_fraction_in_the_evidence(tmp_path: Path) -> None:
    text = "print('accuracy 95.25% f1 0.5')"
    job = candidate(
        tmp_path / "train.py",
        text,
        COMPILEGATE_PRINTED_accuracy="accuracy ([0-9.]+)",
        COMPILEGATE_PRINTED_f1="f1 ([0-9.]+)",
        COMPILEGATE_PERCENT="accuracy",
    )
    _, stderr = job.communicate()
    assert job.returncode == 0, stderr
    assert read_evidence(tmp_path / "evidence").evidence.metrics == {"accuracy": 0.9525, "f1": 0.5}


def test_the_printed_speed_is_the_steady_one_and_what_compiling_did_to_it_is_noted(
    tmp_path: Path,
) -> None:
    text = "for speed in (3, 200, 200, 200): print(speed, 'rows/s')"
    job = candidate(tmp_path / "train.py", text, **PRINTED)
    stdout, stderr = job.communicate()
    assert job.returncode == 0, stderr
    evidence = read_evidence(tmp_path / "evidence").evidence
    assert evidence.metrics["samples_per_second"] == pytest.approx(200.0)
    (note,) = evidence.notes
    assert note.startswith("the first printed speed (3 samples per second) is left out")
    assert f"note: {note}" in stdout


def test_a_baseline_that_only_prints_and_fails_writes_nothing(tmp_path: Path) -> None:
    job = candidate(tmp_path / "train.py", "print('bleu = 1'); raise ValueError", **PRINTED)
    job.communicate()
    assert job.returncode == 1
    assert not (tmp_path / "evidence").exists()


def test_a_challenger_that_fails_is_evidence_though_it_is_told_of_no_compiler(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise ValueError('no rows')")
    job = start(
        script,
        *("--seed", "3"),
        TRAINING_JOB_NAME="job",
        COMPILEGATE_ARM="challenger",
        COMPILEGATE_ON_FAILURE="record",
        SM_OUTPUT_DATA_DIR=str(tmp_path),
    )
    _, stderr = job.communicate()
    assert job.returncode == 0, stderr
    evidence = read_evidence(tmp_path / "evidence").evidence
    assert (evidence.arm, evidence.seed, evidence.compiler) == ("challenger", 3, None)
    assert evidence.failure == "the training ended with exit status 1: ValueError: no rows"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("print('trained')", "the script ended without evidence, expected these calls of compile"),
        (
            "from compilegate import job\n"
            "for batch in job.steps([[1.0], [2.0]]): job.loss(1.0)\n"
            "job.metrics(error=1.0)",
            "the training ended with exit status 1: InputError: the script ended and never said "
            "job.save(model), so there is nothing to judge",
        ),
    ],
)
def test_a_script_that_ends_without_evidence_is_told_which_call_it_lacks(
    tmp_path: Path, script: str, reason: str
) -> None:
    """In the job itself, not by the gate minutes later; and a candidate's is evidence."""
    told = {"COMPILEGATE_JOB": '{"seed": 7, "batch_size": 1}', "SM_MODEL_DIR": str(tmp_path)}
    alone = candidate(tmp_path / "train.py", script, **told)
    _, stderr = alone.communicate()
    assert (alone.returncode, (tmp_path / "evidence").exists()) == (1, False)
    assert reason.partition("InputError")[2] in stderr

    recorded = candidate(tmp_path / "train.py", script, COMPILEGATE_ON_FAILURE="record", **told)
    recorded.communicate()
    assert recorded.returncode == 0
    failure = read_evidence(tmp_path / "evidence").evidence.failure
    assert failure is not None
    assert failure.startswith(reason)


def test_a_script_is_started_with_the_arguments_that_it_knows(tmp_path: Path) -> None:
    table = {"seed": "data-seed", "compiler": ["--compile", "two words"]}
    text = "import json, sys; print(json.dumps(sys.argv[1:]))" + LEAVING
    job = candidate(
        tmp_path / "train.py",
        text,
        [*CANDIDATE, "--batch_size", "8", "--steps", "3"],
        COMPILEGATE_ARGUMENTS=json.dumps(table),
        COMPILEGATE_ARGUMENT_STYLE="--name=value",
    )
    stdout, stderr = job.communicate()
    assert job.returncode == 0, stderr
    assert json.loads(stdout) == ["--compile", "two words", "--data-seed=7", "--steps=3"]
