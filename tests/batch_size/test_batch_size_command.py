"""`profile --largest-batch`: real training steps in real processes, under a limit of memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.cli.main import main

WORKLOAD = """
name = "small"
description = "A small one"
seeds = [1]
data = { source = "reuters-r8", sequence_length = 512, vocabulary = 500 }
model = { source = "random", layers = 1, hidden_size = 64, intermediate_size = 16384 }
recipe = { epochs = 1 }
[gate.metrics.accuracy]
direction = "higher"
margin = 0.01
[arms.baseline]
compiler = "eager"
batch_size = 2
learning_rate = 1e-3
[arms.eight]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3
[arms.half]
compiler = "eager"
batch_size = 8
learning_rate = 1e-3
precision = "fp16"
[arms.elsewhere]
compiler = "training-compiler"
batch_size = 8
learning_rate = 1e-3
"""

Find = Callable[..., Result]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Runs the command on a small workload; memory, disk and processes are real."""
    path = tmp_path / "small.toml"
    path.write_text(WORKLOAD, encoding="utf-8")

    def find(arm: str, *options: str) -> Result:
        home = str(tmp_path / "home")
        arguments = [
            "profile",
            str(path),
            "--largest-batch",
            "--arm",
            arm,
            "--home",
            home,
            *options,
        ]
        return CliRunner().invoke(main, arguments)

    return find


@pytest.mark.long
@pytest.mark.slow
def test_a_search_survives_running_out_of_memory_and_goes_on_where_it_was(find: Find) -> None:
    limited = ("--memory-limit", "800MB")
    result = find("baseline", *limited)
    assert result.exit_code == 0, result.output
    found = re.search(r"largest batch that fits: (\d+) \((\d+) does not\)", result.output)
    assert found is not None, result.output
    fitting, too_large = int(found[1]), int(found[2])
    assert 1 <= fitting < too_large
    assert f"batch {fitting}: fits" in result.output
    assert f"batch {too_large}: out of memory" in result.output
    assert re.search(r"advice: batch_size = \d+, which leaves a tenth", result.output)
    peaks = [float(each) for each in re.findall(r": fits, (\d+\.\d+) GB at most", result.output)]
    # Pages of libraries that are touched only later come on top of the limit.
    assert max(peaks) <= 1.0

    again = find("baseline", *limited)
    trials = [line for line in again.output.splitlines() if line.startswith("batch ")]
    assert trials
    assert all(line.endswith("from an earlier trial") for line in trials)
    assert f"largest batch that fits: {fitting} " in again.output


KILLED_ABOVE_ONE = """
import os, signal, sys
told = sys.orig_argv
if "training.fit" in told and int(told[told.index("--batch_size") + 1]) > 1:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_trial_that_the_system_kills_is_an_answer_and_the_search_goes_on(
    find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(KILLED_ABOVE_ONE)  # Python imports it by itself
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = find("eight")
    assert result.exit_code == 0, result.output
    for killed in (8, 4, 2):
        assert f"batch {killed}: out of memory (killed by SIGKILL)\n" in result.output
    assert "largest batch that fits: 1 (2 does not)" in result.output


@pytest.mark.slow
def test_a_failure_that_is_not_for_want_of_memory_ends_the_search_with_its_reason(
    find: Find,
) -> None:
    result = find("half")
    assert result.exit_code == 2
    assert "a batch of 8 failed for a reason other than memory: precision" in result.output
    assert "fp16 needs a GPU" in result.output


def test_an_arm_that_cannot_run_here_is_refused_by_name(find: Find) -> None:
    result = find("elsewhere")
    assert result.exit_code == 2
    assert "arms.elsewhere.compiler: SageMaker Training Compiler" in result.output


def test_an_arm_that_is_not_there_is_refused_with_those_that_are(find: Find) -> None:
    result = find("fast")
    assert result.exit_code == 2
    assert "has no arm fast; it has baseline, eight, half, elsewhere" in result.output


def test_a_limit_that_is_no_size_is_refused(find: Find) -> None:
    result = find("baseline", "--memory-limit", "plenty")
    assert result.exit_code == 2
    assert "'plenty' is not a size; give a number with MB or GB" in result.output
