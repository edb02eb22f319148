"""Training Compiler proves that it is on, or the job ends with the reason.

The compiler itself is in AWS's images only, and never ran here: what is tested is what is asked of
it, and what is said where it is not.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from compilegate.job.compilers.training_compiler.running import (
    debug_mode,
    overhear,
    require_configured,
)
from compilegate.job.errors import CompilerError

TrainJob = Callable[..., Any]
SWITCHED_ON = '{"sagemaker_training_compiler_enabled":true}'


def refusal(environment: dict[str, str]) -> str:
    """What is said against it; nothing where nothing is."""
    try:
        require_configured(environment)
    except CompilerError as error:
        return str(error)
    return ""


def test_a_compiler_that_says_it_is_configured_is_believed() -> None:
    assert refusal({"SM_TRAINING_COMPILER_CONFIGURED": "1"}) == ""


def test_without_the_toolkit_the_compiler_was_declared_and_did_not_run() -> None:
    assert refusal({}) == (
        "the compiler was declared and did not run: SM_TRAINING_COMPILER_CONFIGURED is not set "
        "after torch_xla was imported, since SM_FRAMEWORK_PARAMS holds no switch of it; the "
        "request must name the training toolkit's sagemaker_program, and no entry point of its own"
    )


def test_in_another_image_the_switch_is_there_and_nobody_heeds_it() -> None:
    said = refusal({"SM_TRAINING_COMPILER_CONFIGURED": "0", "SM_FRAMEWORK_PARAMS": SWITCHED_ON})
    assert said.endswith(
        "though the request switches it on; the image has a torch_xla that is not AWS's"
    )


@pytest.mark.parametrize(
    ("parameters", "debug"),
    [
        ('{"sagemaker_training_compiler_debug_mode":true}', True),
        ('{"sagemaker_training_compiler_debug_mode":"true"}', True),
        ('{"sagemaker_training_compiler_debug_mode":false}', False),
        ("{}", False),
        ("", False),
        ("not JSON", False),
    ],
)
def test_debug_mode_is_read_as_the_toolkit_writes_it(parameters: str, debug: bool) -> None:
    assert debug_mode({"SM_FRAMEWORK_PARAMS": parameters}) is debug


def test_the_compiler_s_lines_are_kept_and_everything_still_reaches_the_log() -> None:
    """The image's module makes its own logger, with a handler on standard output as it is then."""
    log = io.StringIO()
    logger = logging.getLogger("test_training_compiler")
    logger.setLevel(logging.INFO)
    with overhear(log) as heard:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("[%(name)s %(levelname)s] %(message)s"))
        logger.addHandler(handler)
        print("Found configuration for Training Compiler")
        logger.info("Configuring SM Training Compiler... ")
        logger.info("something else")
    logger.info("later")
    logger.removeHandler(handler)
    assert heard == [
        "Found configuration for Training Compiler",
        "[test_training_compiler INFO] Configuring SM Training Compiler...",
    ]
    assert log.getvalue().splitlines()[-2:] == [
        "[test_training_compiler INFO] something else",
        "[test_training_compiler INFO] later",
    ]
    assert sys.stdout is not log
