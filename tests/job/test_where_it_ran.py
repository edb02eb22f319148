"""What a job says of the machine it ran on."""

from __future__ import annotations

import os

import pytest

from compilegate.job.machine.accelerators import Machine
from compilegate.job.machine.environment import describe_machine
from compilegate.local.requests import ACCOUNT


def instance_type(monkeypatch: pytest.MonkeyPatch, arn: str | None) -> object:
    monkeypatch.setenv("SM_CURRENT_INSTANCE_TYPE", "ml.g5.xlarge")
    monkeypatch.delenv("TRAINING_JOB_ARN", raising=False)
    if arn is not None:
        monkeypatch.setenv("TRAINING_JOB_ARN", arn)
    return describe_machine(Machine(None), "cpu", os.environ)["instance_type"]


def test_a_job_on_sagemaker_says_which_instance_it_ran_on(monkeypatch):
    arn = "arn:aws:sagemaker:us-west-2:123456789012:training-job/one"
    assert instance_type(monkeypatch, arn) == "ml.g5.xlarge"


@pytest.mark.parametrize("arn", [f"{ACCOUNT}:training-job/one", "one", "", None])
def test_a_job_anywhere_else_does_not_pass_for_the_instance_it_declares(monkeypatch, arn):
    """Or the price of that instance would be put on the seconds of this machine."""
    assert instance_type(monkeypatch, arn) is None


@pytest.mark.parametrize(
    ("told", "recorded"), [("registry/training:1", "registry/training:1"), ("", None), (None, None)]
)
def test_a_job_records_the_image_that_it_was_told_it_runs_in(monkeypatch, told, recorded):
    monkeypatch.delenv("COMPILEGATE_IMAGE", raising=False)
    if told is not None:
        monkeypatch.setenv("COMPILEGATE_IMAGE", told)
    assert describe_machine(Machine(None), "cpu", os.environ)["image"] == recorded
