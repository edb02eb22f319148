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

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
LAUNCH = ROOT / "compilegate" / "job" / "launch"
JOB = {
    "COMPILEGATE_JOB": '{"seed": 7}',
    "COMPILEGATE_ARM": "an-arm",
    "TRAINING_JOB_NAME": "an-arm-7",
}
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
) -> list[str]:
    """The lines that a script prints."""
    (folder / "train.py").write_text(script)
    (folder / "evidence").mkdir(exist_ok=True)
    (folder / "evidence" / "evidence.json").touch()  # which the launcher looks for
    settings = {
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
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def drawn(lines: list[str]) -> list[list[float]]:
    found = [json.loads(line) for line in lines]
    assert [early for early, _ in found] == [[]] * len(found)  # nothing is imported before its time
    return [numbers for _, numbers in found]


def by_seed(seed: int) -> list[float]:
    chance = torch.Generator().manual_seed(seed)
    of_numpy = np.random.RandomState(seed).random_sample()
    return [random.Random(seed).random(), of_numpy, torch.rand((), generator=chance).item()]


def test_a_script_draws_from_the_arm_s_seed_from_its_first_line_on(tmp_path: Path) -> None:
    assert drawn(launched(tmp_path, DRAWS, COMPILEGATE_PROCESSES="2", **JOB)) == [by_seed(7)] * 2
    # Where SageMaker itself starts the processes, and the job's description is in two variables.
    parts = {"COMPILEGATE_JOB": '{"see', "COMPILEGATE_JOB_2": 'd": 7}'}
    assert drawn(launched(tmp_path, DRAWS, program="script_process.py", **parts)) == [by_seed(7)]
    (unseeded,) = drawn(launched(tmp_path, DRAWS))  # without a job
    assert set(unseeded).isdisjoint(by_seed(0))


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
    done = launched(tmp_path, script, program=str(tmp_path / "launcher.py"), **JOB)
    assert drawn(done) == [by_seed(7)]


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
    assert launched(tmp_path, AS_MAIN, "--rate", "0.1", **JOB) == [
        "beside ['train.py', '--rate', '0.1'] True <class 'int'>",
        "spawned __main__",
        "at exit True",
    ]
