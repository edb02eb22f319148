"""A training program of one's own, as the documentation shows it: its evidence is judged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.gate.findings import Outcome
from compilegate.gate.verdict import Verdict

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "docs" / "examples"
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]


def python(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        arguments,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_script_that_predicts_numbers_is_judged_by_its_errors(tmp_path: Path) -> None:
    script = str(EXAMPLES / "train_regression.py")
    for arm in ("loop", "matrix"):
        for seed in (1, 2, 3):
            python(sys.executable, script, arm, str(seed), f"ev/{arm}--{seed}", folder=tmp_path)
    config = f"--config={EXAMPLES / 'regression.toml'}"
    python(*COMMAND, "gate", "ev", config, "--output=out", folder=tmp_path)
    verdict = Verdict.from_json((tmp_path / "out" / "verdict.json").read_bytes())
    (candidate,) = verdict.candidates
    found = {metric.metric: metric for metric in candidate.metrics}
    assert found["mse"].baseline == pytest.approx(0.09, rel=0.3)  # the noise in the targets
    assert found["mae"].baseline == pytest.approx(0.3 * (2 / 3.1416) ** 0.5, rel=0.2)
    # How fast the two were is the machine's affair; that they are equally good is not.
    assert {metric.outcome for metric in candidate.metrics} == {Outcome.PASS}
    assert candidate.confounds == ()
