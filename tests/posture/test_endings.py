"""What the posture learns of an execution in which jobs died."""

from __future__ import annotations

import pytest

from compilegate.posture.function import FailedStep, crashed

PROGRAM = "AlgorithmError: ExecuteUserScriptError: RuntimeError: no kernel, exit code: 1"
MACHINE = "InternalServerError: We encountered an internal error. Please try again."


@pytest.mark.parametrize(
    "reason",
    [
        MACHINE,
        "CapacityError: Unable to provision requested ML compute capacity.",
        "AlgorithmError: , exit code: 137",
        "ClientError: Please use an instance type with more memory, or reduce the size of data; "
        "out of memory",
        "AlgorithmError: killed by SIGTERM, exit code: 143",
        "",
    ],
)
def test_what_the_machine_did_says_nothing_about_the_candidate(reason: str) -> None:
    seen, lost = crashed(["compiled"], [FailedStep("Train-compiled-1", reason)])
    assert seen == ()
    assert lost.startswith("Train-compiled-1: ")


def test_what_its_program_did_refuses_it() -> None:
    seen, lost = crashed(["a", "b"], [FailedStep("Train-a-2", PROGRAM)])
    assert [(each.arm, each.outcome, each.crashed) for each in seen] == [("a", "fail", True)]
    assert lost == ""


def test_a_baseline_s_failure_is_no_candidate_s() -> None:
    failed = [FailedStep("Train-baseline-1", PROGRAM), FailedStep("Prepare", PROGRAM)]
    assert crashed(["compiled"], failed) == ((), "")
