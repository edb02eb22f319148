"""Scripts in the style of well-known examples, under the gate with five changed lines each."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import COMPILED_LINE, COMPILING_LINE

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
IMPORT = "from compilegate import job\n"
CHANGES = {
    "mnist": [
        ("import argparse\n", "import argparse\n" + IMPORT),
        ("enumerate(train_loader)", "enumerate(job.steps(train_loader))"),
        (
            "            correct +=",
            "            job.examples(ids=job.positions(len(data)), labels=target, logits=output)\n"
            "            correct +=",
        ),
        ("model = Net().to(device)", "model = job.compile(Net().to(device))"),
        ('torch.save(model.state_dict(), "marks.pt")', "job.save(model)"),
    ],
    "word_language_model": [
        ("import argparse\n", "import argparse\n" + IMPORT),
        (
            "in range(0, source.size(0) - args.bptt, args.bptt):",
            "in job.steps(range(0, source.size(0) - args.bptt, args.bptt)):",
        ),
        (
            "            total +=",
            "            job.examples(ids=job.positions(len(losses)), losses=losses)\n"
            "            total +=",
        ),
        (
            "model = RNNModel(len(vocabulary), 16, 24, 0.1)",
            "model = job.compile(RNNModel(len(vocabulary), 16, 24, 0.1))",
        ),
        ('torch.save(model.state_dict(), "model.pt")', "job.save(model)"),
    ],
    "nano_gpt": [
        ("import contextlib\n", "import contextlib\n" + IMPORT),
        ('torch.compile(model) if os.environ.get("COMPILE") else model', "job.compile(model)"),
        ("while True:", "for _ in job.steps():"),
        (
            "        if iter_num > 0:",
            '        job.metrics(val_loss=losses["val"])\n        if iter_num > 0:',
        ),
        (
            'torch.save({"model": model.state_dict(), "iter_num": iter_num}, "ckpt.pt")',
            "job.save(model)",
        ),
    ],
}
STEPS = {"mnist": 10, "word_language_model": 2 * 33, "nano_gpt": 24}


def changed(name: str) -> str:
    text = (PROGRAMS / f"{name}.py").read_text()
    for before, after in CHANGES[name]:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    chance = np.random.default_rng(0)
    shapes, labels = chance.random((10, 8, 8)) > 0.6, chance.integers(0, 10, 900)
    images = (shapes[labels] + chance.normal(0.0, 1.1, (900, 8, 8))).astype(np.float32)
    np.savez(folder / "marks.npz", images=images, labels=labels)
    words = [f"w{number}" for number in chance.integers(0, 30, 2000).cumsum() % 30]
    (folder / "text.txt").write_text(" ".join(words))
    return folder


def launched(
    script: Path, data: Path, folder: Path, *, told: dict[str, object], **variables: str
) -> subprocess.CompletedProcess[str]:
    """The script as a job starts it: by the launcher, in the layout of SageMaker's container."""
    for name in ("model", "output"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    surroundings = {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "TRAINING_JOB_NAME": "a-job",
        "COMPILEGATE_ARM": "candidate",
        "COMPILEGATE_SCRIPT": str(script),
        "COMPILEGATE_ARGUMENTS": "{}",
        "COMPILEGATE_JOB": json.dumps({"seed": 1, "precision": "fp32", **told}),
        "SM_CHANNEL_DATA": str(data),
        "SM_MODEL_DIR": str(folder / "model"),
        "SM_OUTPUT_DATA_DIR": str(folder / "output"),
        **variables,
    }
    launcher = ROOT / "compilegate" / "job" / "launch" / "own_script.py"
    return subprocess.run(
        [sys.executable, str(launcher), "--seed", "1"],
        env={**os.environ, **surroundings},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def trained(name: str, data: Path, folder: Path, **told: object) -> tuple[EvidenceRecord, str]:
    script = folder / "train.py"
    folder.mkdir(parents=True, exist_ok=True)
    script.write_text(changed(name))
    ended = launched(script, data, folder, told=told)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return read_evidence(folder / "output" / "evidence"), ended.stdout


@pytest.mark.parametrize("name", list(CHANGES))
def test_five_changed_lines_are_enough(name: str) -> None:
    before = (PROGRAMS / f"{name}.py").read_text().splitlines()
    lines = [each for each in difflib.ndiff(before, changed(name).splitlines()) if each[0] == "+"]
    assert len(lines) <= 5


@pytest.mark.parametrize("name", list(CHANGES))
def test_the_changed_script_runs_by_hand(name: str, data: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(changed(name))
    ended = subprocess.run(
        [sys.executable, "train.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SM_CHANNEL_DATA": str(data)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "compilegate-job" / "model" / "model.safetensors").is_file()


def test_what_a_script_compiled_is_there_for_the_next_job(data: Path, tmp_path: Path) -> None:
    told = {"compiler": "inductor", "batch_size": 8, "parity_steps": 0}
    (tmp_path / "archives").mkdir()
    cache = {"COMPILEGATE_COMPILE_CACHE": str(tmp_path / "archives")}
    states = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "train.py").write_text(changed("word_language_model"))
        ended = launched(folder / "train.py", data, folder, told=told, **cache)
        assert ended.returncode == 0, ended.stderr[-3000:]
        found = read_evidence(folder / "output" / "evidence").evidence.compile_cache
        assert found is not None
        states.append(found.state)
    assert states == ["cold", "warm"]


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_compiled_job_has_proof_speed_and_parity(name: str, data: Path, tmp_path: Path) -> None:
    record, printed = trained(
        name, data, tmp_path, compiler="inductor", batch_size=8, baseline={"compiler": "eager"}
    )
    # Whoever waits is told why, and until when.
    told = [line for line in printed.splitlines() if line in {COMPILING_LINE, COMPILED_LINE}]
    assert told == [COMPILING_LINE, COMPILED_LINE]
    evidence, steps = record.evidence, record.steps
    compiler, speed, parity = evidence.compiler, evidence.speed, evidence.parity
    assert compiler is not None
    assert compiler.ran
    assert compiler.recompilations == 0
    assert steps is not None
    assert len(steps.loss) == STEPS[name]
    assert speed is not None
    assert speed.samples_per_second > 0
    assert parity is not None
    assert parity.obstacle is None
    assert evidence.paired_speed is not None
    assert evidence.memory_of == "process"
