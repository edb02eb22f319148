"""How a training ended: the table of the code and of the page, and one line of an error."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from compilegate.job import endings
from compilegate.job.endings import ARM, ENDINGS, MACHINE, NEED, Ending
from compilegate.job.errors import CompilerError, one_sentence

PAGE = Path(__file__).parents[2] / "docs" / "own-script.md"
ABOUT = {"the arm": ARM, "the machine": MACHINE, "the arm's need": NEED}


def test_the_page_has_the_table_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w ]+?) \| .* \| (\d)[^|]* \| (the [\w' ]+) \|$", text, re.MULTILINE)
    found = {name: (int(starts), ABOUT[about]) for name, starts, about in rows}
    assert found == {name: (each.attempts, each.about) for name, each in ENDINGS.items()}


def test_a_signal_is_an_ending_and_so_is_memory_that_ran_out() -> None:
    """What can be planted is, in `launch/test_supervisor.py`."""
    assert endings.of_signal(signal.SIGKILL, True) is endings.NO_MEMORY
    for each in (signal.SIGABRT, signal.SIGILL):
        assert endings.of_signal(each, True) is endings.WRONG_CODE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when", endings.NO_GPU_MEMORY),
        ("RuntimeError: RESOURCE_EXHAUSTED: Out of memory while", endings.NO_GPU_MEMORY),
        ("numpy.core._exceptions._ArrayMemoryError: Unable to allocate", endings.NO_MEMORY),
        ("OSError: [Errno 12] Cannot allocate memory", endings.NO_MEMORY),
    ],
)
def test_the_last_words_of_a_script_are_an_ending(text: str, expected: Ending) -> None:
    assert endings.of_exception(text) is expected


def test_the_kernel_s_count_is_that_of_the_control_group_where_it_has_one(tmp_path: Path) -> None:
    assert endings.killed_for_memory(str(tmp_path)) == 0
    for path, text, expected in [
        ("proc/vmstat", "pgfault 3\noom_kill 7\n", 7),
        ("sys/fs/cgroup/memory.events", "oom 1\noom_kill 2\n", 2),
    ]:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
        assert endings.killed_for_memory(str(tmp_path)) == expected


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (CompilerError("no g++; install it\nor not"), "no g++; install it"),
        (ValueError("\nbad shape\n\nadvice"), "ValueError: bad shape"),
        (
            RuntimeError("backend='inductor' raised:\n\n  KeyError: 'x'\nadvice"),
            "RuntimeError: backend='inductor' raised: KeyError: 'x'",
        ),
        (RuntimeError("it announces nothing:"), "RuntimeError: it announces nothing:"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_an_error_is_one_line_that_says_something(error: BaseException, sentence: str) -> None:
    assert one_sentence(error) == sentence
