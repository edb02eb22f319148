"""How a script of a workload's own is started: on several machines, and as a candidate."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.evidence import Origin, read_evidence

ROOT = Path(__file__).parents[3]
MACHINES = ["127.0.0.1", "algo-2"]
"""The second name is never asked for: machines meet at the first one."""
SCRIPT = """
import json, os, sys
told = [os.environ["RANK"], os.environ["WORLD_SIZE"], sys.argv[1:]]
os.write(1, (json.dumps(told) + "\\n").encode())  # in one piece: all write to one pipe
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
    script.write_text(SCRIPT)
    arguments = ["--title", "two words; $HOME"]
    several = {"SM_HOSTS": json.dumps(MACHINES), "COMPILEGATE_PROCESSES": "2"}
    launched = [
        start(script, *arguments, SM_CURRENT_HOST=machine, **several) for machine in MACHINES
    ]
    told = [json.loads(line) for each in launched for line in each.communicate()[0].splitlines()]
    assert sorted(told) == [[str(rank), "4", arguments] for rank in range(4)]
    assert [each.returncode for each in launched] == [0, 0]


CANDIDATE = ("--compiler", "inductor", "--seed", "7")


def candidate(script: Path, text: str, **variables: str) -> subprocess.Popen[str]:
    """Starts a script that trains a candidate, with a folder for its evidence beside it."""
    script.write_text(text)
    told = {"TRAINING_JOB_NAME": "job", "COMPILEGATE_ARM": "compiled"}
    output = {"SM_OUTPUT_DATA_DIR": str(script.parent)}
    return start(script, *CANDIDATE, **told, **output, **variables)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "raise ValueError('shapes changed')",
            "the script ended with exit status 1: ValueError: shapes changed",
        ),
        ("import sys; sys.exit(4)", "the script ended with exit status 4: its log says more"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the script was killed by SIGKILL; the machine may have run out of memory: "
            "its log says more",
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
    assert f"recorded: arm compiled could not be trained: {reason}" in stdout
    assert "Traceback" in stderr or "ValueError" not in text


def test_a_failure_that_is_not_to_be_recorded_is_the_job_s_own(tmp_path: Path) -> None:
    job = candidate(tmp_path / "train.py", "import sys; sys.exit(4)")
    job.communicate()
    assert job.returncode == 4
    assert not (tmp_path / "evidence").exists()


def test_a_job_that_is_stopped_says_nothing_of_its_arm(tmp_path: Path) -> None:
    text = "import signal; print('ready', flush=True); signal.pause()"
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
    assert stdout == "bleu = 1.5\nbleu = 27.25, 101.5 rows/s"  # and passes on as it is
    record = read_evidence(tmp_path / "evidence")
    assert (record.evidence.origin, record.steps, record.examples) == (Origin.PRINTED, None, None)
    metrics = dict(record.evidence.metrics)
    assert math.isnan(metrics.pop("loss"))  # which the gate refuses with its own reason
    assert metrics == {"bleu": 27.25, "samples_per_second": 101.5}
    assert (record.evidence.compiler, record.evidence.recipe["compiler"]) == (None, "inductor")


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
    assert evidence.failure == "the script ended with exit status 1: ValueError: no rows"
