"""How a script of a workload's own is started, and what evidence its launcher writes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import CompilerRecord, Evidence, EvidenceOrigin

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LAUNCHER = ROOT / "compilegate" / "job" / "launch" / "own_script.py"
LEAVING = """
import os, pathlib
folder = pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "evidence")
folder.mkdir(exist_ok=True)
(folder / "evidence.json").write_text("{}")  # what it holds is the gate's question
"""
CANDIDATE = ("--compiler", "inductor", "--seed", "7")
RECORD = {"COMPILEGATE_ON_FAILURE": "record"}


def start(folder: Path, text: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Starts a script in that folder, which is for its evidence as well."""
    script = folder / "train.py"
    script.write_text(text)
    settings = {
        "PYTHONPATH": str(ROOT),
        "COMPILEGATE_SCRIPT": str(script),
        "COMPILEGATE_ARM": "compiled",
        "TRAINING_JOB_NAME": "job",
        "SM_OUTPUT_DATA_DIR": str(folder),
        **variables,
    }
    return subprocess.Popen(
        [sys.executable, str(LAUNCHER), *arguments],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(
    folder: Path, text: str, *arguments: str, status: int = 0, **variables: str
) -> tuple[str, str]:
    """Runs it to that exit status: what it printed."""
    launched = start(folder, text, *(arguments or CANDIDATE), **variables)
    stdout, stderr = launched.communicate()
    assert launched.returncode == status, stderr
    return stdout, stderr


def evidence(folder: Path) -> Evidence:
    return read_evidence(folder / "evidence").evidence


def test_each_process_of_two_machines_has_a_rank_and_the_script_s_own_arguments(
    tmp_path: Path,
) -> None:
    text = """
import json, os, sys
told = [os.environ["RANK"], os.environ["WORLD_SIZE"], sys.argv[1:]]
os.write(1, (json.dumps(told) + "\\n").encode())  # in one piece: all write to one pipe
"""
    machines = ["127.0.0.1", "algo-2"]  # they meet at the first, and never look for the second
    several = {"SM_HOSTS": json.dumps(machines), "COMPILEGATE_PROCESSES": "2"}
    arguments = ["--title", "two words; $HOME"]
    launched = [
        start(tmp_path, text + LEAVING, *arguments, SM_CURRENT_HOST=machine, **several)
        for machine in machines
    ]
    settings = [
        json.loads(line) for each in launched for line in each.communicate()[0].splitlines()
    ]
    assert sorted(settings) == [[str(rank), "4", arguments] for rank in range(4)]
    assert [each.returncode for each in launched] == [0, 0]


def test_a_script_gets_its_job_and_its_arguments(tmp_path: Path) -> None:
    text = """
import json, os, sys
told = json.loads(os.environ["COMPILEGATE_JOB"])
print(json.dumps([told, "COMPILEGATE_JOB_2" in os.environ, sys.argv[1:]]))
"""
    job = {"seed": 7, "compiler": "inductor", "batch_size": 8, "baseline": {"batch_size": 4}}
    described = json.dumps(job)
    # As SageMaker's toolkit passes arguments on: it writes what it decoded as Python does.
    given = ["--compiler", "inductor", "--mirror", "True", "--rate", "0.01", "-n", "2"]
    stdout, _ = ended(
        *(tmp_path, text + LEAVING, *given, "--t", "a b"),
        COMPILEGATE_JOB=described[:9],
        COMPILEGATE_JOB_2=described[9:],
        COMPILEGATE_ARGUMENTS='{"rate": "lr", "compiler": ["--compile", "two words"]}',
        COMPILEGATE_ARGUMENT_STYLE="--name=value",
    )
    recipe = {"compiler": "inductor", "mirror": True, "rate": 0.01, "n": 2, "t": "a b"}
    own = ["--compile", "two words", "--mirror=True", "--lr=0.01", "-n=2", "-t=a b"]
    assert json.loads(stdout) == [{**job, "recipe": recipe}, False, own]


@pytest.mark.parametrize(
    ("arguments", "compiler"),
    [
        (CANDIDATE, CompilerRecord("inductor", ran=False)),
        (("--seed", "7"), None),  # a challenger
    ],
)
def test_a_failure_is_evidence_with_the_reason(
    tmp_path: Path, arguments: tuple[str, ...], compiler: CompilerRecord | None
) -> None:
    ended(tmp_path, "raise ValueError('shapes changed')", *arguments, **RECORD)
    found = evidence(tmp_path)
    assert (found.job, found.arm, found.seed) == ("job", "compiled", 7)
    assert (found.compiler, found.ending) == (compiler, "exception")
    assert "ValueError: shapes changed" in str(found.failure)


def test_the_signal_that_killed_one_of_several_processes_is_the_reason(tmp_path: Path) -> None:
    text = """
import os, signal
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGILL)
signal.pause()
"""
    ended(tmp_path, text, COMPILEGATE_PROCESSES="2", **RECORD)
    found = evidence(tmp_path)
    assert found.ending == "wrong code"
    assert "training process 1 was killed by SIGILL" in str(found.failure)


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("print('trained')", "the script ended without evidence"),
        (
            "from compilegate import job\n"
            "for batch in job.steps([[1.0], [2.0]]): job.loss(1.0)\n"
            "job.metrics(error=1.0)",
            "job.save(model)",
        ),
    ],
)
def test_a_script_that_ends_without_evidence_is_told_which_call_it_lacks(
    tmp_path: Path, text: str, lacking: str
) -> None:
    """In the job itself, not by the gate minutes later; and a candidate's is evidence."""
    settings = {"COMPILEGATE_JOB": '{"seed": 7, "batch_size": 1}', "SM_MODEL_DIR": str(tmp_path)}
    _, stderr = ended(tmp_path, text, status=1, **settings)
    assert lacking in stderr
    assert not (tmp_path / "evidence").exists()
    ended(tmp_path, text, **RECORD, **settings)
    assert lacking in str(evidence(tmp_path).failure)


PRINTED = {
    "COMPILEGATE_PRINTED_bleu": "bleu = ([0-9.]+)",
    "COMPILEGATE_PRINTED_samples_per_second": "([0-9.]+) rows/s",
    "COMPILEGATE_PRINTED_loss": r"loss (\S+)",
    "COMPILEGATE_PRINTED_f1": "f1 ([0-9.]+)%",
    "COMPILEGATE_PRINTED_other": "other = ([0-9.]+)",
    "COMPILEGATE_PERCENT": "f1",
}


def test_what_a_script_only_prints_becomes_evidence_that_says_so(tmp_path: Path) -> None:
    text = """
import sys
print("bleu = 1.5", flush=True)
print("f1 95.25%, loss nan", file=sys.stderr)
for speed in (3, 200):
    print(speed, "rows/s")
print("bleu = 27.25", end="")  # the last value counts, without a line's end too
"""
    stdout, _ = ended(tmp_path, text, **PRINTED)
    assert stdout.startswith("bleu = 1.5\n3 rows/s\n")  # it passes on as it is
    record = read_evidence(tmp_path / "evidence")
    found = record.evidence
    assert (found.origin, record.steps, record.examples) == (EvidenceOrigin.PRINTED, None, None)
    assert (found.compiler, found.recipe["compiler"]) == (None, "inductor")
    metrics = dict(found.metrics)
    assert math.isnan(metrics.pop("loss"))  # which the gate refuses with its own reason
    assert metrics == pytest.approx({"bleu": 27.25, "f1": 0.9525, "samples_per_second": 200.0})
    assert found.printed["bleu"] == (1.5, 27.25)
    (note,) = found.notes  # of a speed that was printed twice
    assert f"note: {note}" in stdout


def test_an_accuracy_above_one_ends_the_job_as_soon_as_it_is_printed(tmp_path: Path) -> None:
    """Of no arm is that evidence: all of them print alike."""
    text = """
import signal
print("epoch 1: test accuracy 95.2967%", flush=True)
signal.pause()  # it would train for hours
"""
    settings = {"COMPILEGATE_PRINTED_test_accuracy": "accuracy ([0-9.]+)", **RECORD}
    ended(tmp_path, text, status=1, SM_OUTPUT_DIR=str(tmp_path), **settings)
    assert not (tmp_path / "evidence").exists()
    reason = (tmp_path / "failure").read_text()
    assert "test_accuracy was printed as 95.2967" in reason
    assert "percent = ['test_accuracy']" in reason
