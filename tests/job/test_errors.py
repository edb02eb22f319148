"""What is left of an error in the reason of a failed job."""

from __future__ import annotations

import pytest

from compilegate.job.errors import CompilerError, one_sentence


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
def test_it_is_one_line_that_says_something(error: BaseException, sentence: str) -> None:
    assert one_sentence(error) == sentence
