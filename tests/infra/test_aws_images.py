"""Arms that run in AWS's own image need its repository, and no other of AWS's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compilegate.account.named import aws_repositories
from compilegate.workload import Arm, read_workload
from tests.workload.settled import settled_arm

PATH = Path(__file__).parents[1] / "pipelines" / "topics.toml"


def arm(version: str, image: str | None = "aws") -> Arm:
    return settled_arm(
        **{
            "compiler": "training-compiler",
            "batch_size": 8,
            "learning_rate": 1e-3,
            **({} if image is None else {"image": image}),
            "training_compiler": {"framework": "tensorflow", "version": version}
            if version.startswith("2")
            else {"version": version},
        }
    )


def test_each_repository_is_named_once_in_the_account_of_the_region() -> None:
    workload = read_workload(PATH)
    arms = {
        **workload.arms,
        "newest": arm("1.13.1"),
        "older": arm("1.12.0"),
        "other": arm("2.11.0"),
        "own": arm("1.13.1", image=None),
    }
    declared = replace(workload, arms=arms)
    found = aws_repositories([declared, declared], "il-central-1")
    assert [(each.account, each.region, each.name) for each in found] == [
        ("780543022126", "il-central-1", "pytorch-trcomp-training"),
        ("780543022126", "il-central-1", "tensorflow-training"),
    ]


def test_arms_in_the_project_s_own_images_need_none() -> None:
    assert aws_repositories([read_workload(PATH)], "us-east-1") == []
