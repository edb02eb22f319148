"""What stands for a script in each process of an arm's job: it seeds, and becomes the script."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from compilegate.gate.evidence import read_evidence
from compilegate.gate.findings import Code
from compilegate.gate.judge import judge
from compilegate.gate.settings import ArmDeclaration, Experiment, GateSettings
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import EvidenceRecord

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LAUNCH = ROOT / "compilegate" / "job" / "launch"
SEED = 7
DRAWS = """
import sys
early = sorted({"numpy", "torch"} & set(sys.modules))
import importlib.util, json, os, random
first = random.random()
importlib.util.find_spec("torch")  # to look for it is not to import it
from numpy.random import random as numpy_s
second = float(numpy_s())
import torch
numbers = [first, second, torch.rand(()).item()]
os.write(1, (json.dumps([early, numbers]) + "\\n").encode())  # in one piece, of several processes
"""


def launched(
    folder: Path, script: str, *arguments: str, program: str = "own_script.py", **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    (folder / "evidence").mkdir(exist_ok=True)
    (folder / "evidence" / "evidence.json").touch()  # which the launcher asks for
    told = {
        "PYTHONPATH": str(ROOT),
        "COMPILEGATE_SCRIPT": "train.py",
        "SM_OUTPUT_DATA_DIR": str(folder),
        "SM_MODEL_DIR": str(folder / "model"),
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    done = subprocess.run(
        [sys.executable, str(LAUNCH / program), *arguments],
        cwd=folder,
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def drawn(done: subprocess.CompletedProcess[str]) -> list[list[float]]:
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [early for early, _ in found] == [[]] * len(found)  # nothing is imported before its time
    return [numbers for _, numbers in found]


def by_seed(seed: int) -> list[float]:
    chance = torch.Generator().manual_seed(seed)
    of_numpy = np.random.RandomState(seed).random_sample()
    return [random.Random(seed).random(), of_numpy, torch.rand((), generator=chance).item()]


def job(seed: int = SEED, arm: str = "an-arm", **told: object) -> dict[str, str]:
    return {
        "COMPILEGATE_JOB": json.dumps({"seed": seed, **told}),
        "COMPILEGATE_ARM": arm,
        "TRAINING_JOB_NAME": f"{arm}-{seed}",
    }


def test_a_script_draws_from_the_arm_s_seed_from_its_first_line_on(tmp_path: Path) -> None:
    assert drawn(launched(tmp_path, DRAWS, **job())) == [by_seed(SEED)]
    # Where SageMaker itself starts the processes, and the job is told in several variables.
    text = job()["COMPILEGATE_JOB"]
    parts = {"COMPILEGATE_JOB": text[:5], "COMPILEGATE_JOB_2": text[5:]}
    done = launched(tmp_path, DRAWS, program="script_process.py", **parts)
    assert drawn(done) == [by_seed(SEED)]


def test_without_a_job_nothing_is_seeded(tmp_path: Path) -> None:
    (numbers,) = drawn(launched(tmp_path, DRAWS))
    assert set(numbers).isdisjoint(by_seed(0))


@pytest.mark.long
def test_each_of_torchrun_s_processes_is_seeded_alike(tmp_path: Path) -> None:
    done = launched(tmp_path, DRAWS, COMPILEGATE_PROCESSES="2", **job())
    assert drawn(done) == [by_seed(SEED)] * 2


def test_a_process_that_has_torch_already_is_seeded_before_its_function(tmp_path: Path) -> None:
    """As those of PyTorch/XLA's launchers, which import this program."""
    script = """
import json, random, numpy, torch
def _mp_fn(index):
    numbers = [random.random(), numpy.random.random_sample(), torch.rand(()).item()]
    print(json.dumps([[], numbers]))
"""
    (tmp_path / "launcher.py").write_text(
        f"import sys, torch, numpy\nsys.path.append({str(LAUNCH)!r})\n"
        "import script_process\nscript_process._mp_fn(0)\n"
    )
    done = launched(tmp_path, script, program=str(tmp_path / "launcher.py"), **job())
    assert drawn(done) == [by_seed(SEED)]


AS_MAIN = """
import atexit, multiprocessing, pickle, sys
from beside import NAME

class Mine:
    pass

def annotated(value: int) -> None:
    pass

def at_exit():
    print("at exit", isinstance(pickle.loads(pickle.dumps(Mine())), Mine))

def spawned(value):
    print("spawned", value, flush=True)

if __name__ == "__main__":
    atexit.register(at_exit)
    print(NAME, sys.argv, __file__.startswith("/"), annotated.__annotations__["value"])
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=spawned, args=(Mine.__module__,))
    process.start()
    process.join()
"""


def test_a_script_is_the_main_program_to_the_very_end(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    done = launched(tmp_path, AS_MAIN, "--rate", "0.1", **job())
    assert done.stdout.splitlines() == [
        "beside ['train.py', '--rate', '0.1'] True <class 'int'>",
        "spawned __main__",
        "at exit True",
    ]


TRAINS = """
import torch
from torch import nn
from compilegate import job
# seed
rows = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
labels = (rows[:, 0] > 0).long()
model = job.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
order = torch.randperm(48)
for batch in job.steps([*order.split(8)] * 4):
    nn.functional.cross_entropy(model(rows[batch]), labels[batch]).backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    job.examples(ids=job.positions(16), logits=model(rows[48:]), labels=labels[48:])
job.save(model)
"""


def trained(folder: Path, script: str, arm: str, seed: int) -> EvidenceRecord:
    folder.mkdir()
    told = job(seed, arm=arm, batch_size=8, learning_rate=0.1)
    launched(folder, script, "--seed", str(seed), **told)
    return read_evidence(folder / "evidence")


def judged(folder: Path, script: str) -> tuple[dict[tuple[str, int], EvidenceRecord], Verdict]:
    """Two arms with two seeds each, that train alike."""
    folder.mkdir()
    arms = ("baseline", "again")
    records = {
        (arm, seed): trained(folder / f"{arm}-{seed}", script, arm, seed)
        for arm in arms
        for seed in (1, 2)
    }
    declared = ArmDeclaration(compiler="eager", batch_size=8, learning_rate=0.1, precision="fp32")
    experiment = Experiment(
        workload="small",
        baseline="baseline",
        arms=dict.fromkeys(arms, declared),
        seeds=[1, 2],
        settings=GateSettings(metrics={"accuracy": {"direction": "higher", "margin": 0.1}}),  # pyrefly: ignore
    )
    return records, judge(experiment, records)


@pytest.mark.long
def test_a_seed_of_the_script_s_own_is_found_by_the_gate(tmp_path: Path) -> None:
    records, verdict = judged(tmp_path / "own", TRAINS.replace("# seed", "torch.manual_seed(0)"))
    models = {record.evidence.digests["model"] for record in records.values()}
    assert len(models) == 1
    assert Code.MODEL_SEED_UNUSED not in {each.code for each in verdict.baseline.reasons}
    (again,) = verdict.candidates
    assert Code.MODEL_SEED_UNUSED in {reason.code for reason in again.reasons}


@pytest.mark.long
def test_the_arm_s_seed_alone_decides_a_script_that_has_none(tmp_path: Path) -> None:
    records, verdict = judged(tmp_path / "arm-s", TRAINS)
    models = {replicate: each.evidence.digests["model"] for replicate, each in records.items()}
    # The same seed gives the same numbers again, another one others.
    assert models["baseline", 1] == models["again", 1] != models["baseline", 2]
    (again,) = verdict.candidates
    said = (*verdict.baseline.reasons, *again.reasons, *again.notes)
    assert Code.MODEL_SEED_UNUSED not in {each.code for each in said}
