"""No call of the job moves a random generator, whatever it calls in between and however it ends."""

from __future__ import annotations

import inspect
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import compilegate.job
from compilegate.job.machine.numerics import preserved_generators
from tests.job.every_call import states

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("compiler", [("eager",), ("torch-compile", "aot_eager"), ("inductor",)])
def test_no_public_function_moves_a_generator(compiler: tuple[str, ...], tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.job.every_call", *compiler],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["moved"] == []
    public = [getattr(compilegate.job, name) for name in compilegate.job.__all__]
    functions = {each.__name__ for each in public if inspect.isfunction(each)}
    assert set(found["called"]) == functions
    # They did run what draws: the model has dropout.
    evidence = found["evidence"]
    if compiler[0] != "eager":
        assert evidence["parity"]["obstacle"] is None
    assert evidence["paired_speed"]["obstacle"] is None


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_generators_are_as_before_whatever_ended_the_block(
    error: type[BaseException] | None,
) -> None:
    def draw() -> None:
        with preserved_generators():
            random.seed(5)
            np.random.standard_normal(3)
            torch.manual_seed(7)
            if error is not None:
                raise error

    before = states()
    if error is None:
        draw()
    else:
        with pytest.raises(error):
            draw()
    assert states() == before
    random.random()
    assert states() != before
