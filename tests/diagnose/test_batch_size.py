"""`profile --largest-batch`: real training steps in real processes, under a limit of memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from compilegate.cli.main import main
from compilegate.diagnose.batch_size import Bracket, advised, largest_fitting

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
        search = ["profile", str(path), "--largest-batch", "--arm", arm, "--home", home]
        return CliRunner().invoke(main, [*search, *options])

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


@pytest.mark.parametrize(
    ("arm", "options", "sentence"),
    [
        ("elsewhere", [], "arms.elsewhere.compiler: SageMaker Training Compiler"),
        ("fast", [], "--arm is 'fast', expected baseline, eight, half, elsewhere"),
        ("baseline", ["--memory-limit", "plenty"], "'plenty' is not a size; give a number with MB"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    find: Find, arm: str, options: list[str], sentence: str
) -> None:
    result = find(arm, *options)
    assert result.exit_code == 2
    assert sentence in result.output


sizes = st.integers(1, 100_000)


class Memory:
    """Batches up to a limit fit; it remembers what it was asked."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.asked: list[int] = []

    def fits(self, batch_size: int) -> bool:
        self.asked.append(batch_size)
        return batch_size <= self.limit


@given(limit=st.integers(0, 200_000), first=sizes, most=sizes)
def test_without_tolerance_it_finds_the_limit_itself(limit: int, first: int, most: int) -> None:
    memory = Memory(limit)
    first = min(first, most)
    found = largest_fitting(memory.fits, first=first, most=most, tolerance=0)
    assert found.fitting == min(limit, most)
    assert found.too_large == (None if limit >= most else limit + 1)


@given(limit=sizes, first=sizes, most=sizes, tolerance=st.floats(0, 0.5))
def test_it_asks_seldom_never_twice_and_never_beyond_what_is_allowed(
    limit: int, first: int, most: int, tolerance: float
) -> None:
    memory = Memory(limit)
    found = largest_fitting(memory.fits, first=min(first, most), most=most, tolerance=tolerance)
    assert len(memory.asked) == len(set(memory.asked)) <= 2 * most.bit_length() + 1
    assert all(1 <= each <= most for each in memory.asked)
    assert found.fitting in memory.asked
    if found.too_large is not None:
        assert found.fitting <= limit < found.too_large
        assert found.too_large - found.fitting <= max(1, tolerance * found.fitting)


@given(fitting=sizes)
def test_advice_fits_and_leaves_room(fitting: int) -> None:
    assert 1 <= advised(fitting) <= fitting
    assert fitting < 10 or advised(fitting) <= 0.9 * fitting
    assert advised(fitting) < 8 or advised(fitting) % 8 == 0


def test_it_stops_where_the_rest_is_within_the_tolerance() -> None:
    memory = Memory(1000)
    found = largest_fitting(memory.fits, first=512, most=4096, tolerance=0.1)
    assert found == Bracket(fitting=960, too_large=1024)
    assert memory.asked == [512, 1024, 768, 896, 960]
