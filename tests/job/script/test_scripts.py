"""A script in the style of a well-known example, under the gate with five changed lines."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.job.names import COMPILED_LINE, COMPILING_LINE
from tests.job.script.jobs import AOT_EAGER, ROOT, left, run

pytestmark = [pytest.mark.slow, pytest.mark.long]

PROGRAM = (Path(__file__).parent / "programs" / "nano_gpt.py").read_text()
CHANGES = {
    "import math\n": "import math\nfrom compilegate import job\n",
    "model = GPT()": "model = job.compile(GPT())",
    "while True:": "for _ in job.steps():",
    "        if iter_num > 0:": (
        '        job.metrics(val_loss=losses["val"])\n        if iter_num > 0:'
    ),
    'torch.save({"model": model.state_dict(), "iter_num": iter_num}, "ckpt.pt")': "job.save(model)",
}


def changed() -> str:
    text = PROGRAM
    for before, after in CHANGES.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def trained(folder: Path, told: dict[str, Any], **variables: str) -> tuple[Any, str]:
    """The script as a job starts it: by the launcher, in the layout of SageMaker's container."""
    for name in ("model", "output"):
        (folder / name).mkdir(parents=True)
    (folder / "train.py").write_text(changed())
    surroundings = {
        "TRAINING_JOB_NAME": "a-job",
        "COMPILEGATE_ARM": "candidate",
        "COMPILEGATE_SCRIPT": str(folder / "train.py"),
        "COMPILEGATE_ARGUMENTS": "{}",
        "COMPILEGATE_JOB": json.dumps({"seed": 1, "precision": "fp32", "batch_size": 8, **told}),
        "SM_MODEL_DIR": str(folder / "model"),
        "SM_OUTPUT_DATA_DIR": str(folder / "output"),
        **variables,
    }
    launcher = ROOT / "compilegate" / "job" / "launch" / "own_script.py"
    ended = run(folder, str(launcher), "--seed", "1", **surroundings)
    return left(folder / "output"), ended.stdout


def test_five_changed_lines_are_enough() -> None:
    lines = difflib.ndiff(PROGRAM.splitlines(), changed().splitlines())
    assert sum(each[0] == "+" for each in lines) <= 5


def test_what_a_script_compiled_is_there_for_the_next_job(tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    cache = {"COMPILEGATE_COMPILE_CACHE": str(tmp_path / "archives")}
    states = []
    for number in range(2):
        told = {"compiler": "inductor", "parity_steps": 0}
        record, _ = trained(tmp_path / str(number), told, **cache)
        states.append(record.evidence.compile_cache.state)
    assert states == ["cold", "warm"]


def test_a_compiled_job_has_proof_speed_and_parity(tmp_path: Path) -> None:
    record, printed = trained(tmp_path, {**AOT_EAGER, "baseline": {"compiler": "eager"}})
    # Whoever waits is told why, and until when.
    told = [line for line in printed.splitlines() if line in {COMPILING_LINE, COMPILED_LINE}]
    assert told == [COMPILING_LINE, COMPILED_LINE]
    evidence, steps = record.evidence, record.steps
    assert (evidence.compiler.ran, evidence.compiler.recompilations) == (True, 0)
    assert len(steps.loss) == 24
    assert evidence.speed.samples_per_second > 0
    assert evidence.parity.obstacle is None
    assert evidence.paired_speed is not None
    assert evidence.memory_of == "process"
