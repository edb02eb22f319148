"""Which images a workload's jobs run in, and which repositories they pull them from."""

from __future__ import annotations

from dataclasses import replace

from compilegate.account.named import aws_repositories
from compilegate.pipelines.requests.images import image_folders_of
from compilegate.workload import Arm, find_workload, read_workload
from tests.infra.assembly import PROJECT
from tests.workload.settled import settled_arm

TOPICS = PROJECT / "tests" / "pipelines" / "topics.toml"


def arm(framework: str, version: str, image: str | None = "aws") -> Arm:
    return settled_arm(
        compiler="training-compiler",
        batch_size=8,
        learning_rate=1e-3,
        training_compiler={"framework": framework, "version": version},
        **({} if image is None else {"image": image}),
    )


def test_each_repository_of_aws_is_named_once_in_the_account_of_the_region() -> None:
    workload = read_workload(TOPICS)
    assert aws_repositories([workload], "us-east-1") == [], "arms in the project's images need none"
    arms = {
        **workload.arms,
        "newest": arm("pytorch", "1.13.1"),
        "older": arm("pytorch", "1.12.0"),
        "other": arm("tensorflow", "2.11.0"),
        "own": arm("pytorch", "1.13.1", image=None),
    }
    declared = replace(workload, arms=arms)
    found = aws_repositories([declared, declared], "il-central-1")
    assert [(each.account, each.region, each.name) for each in found] == [
        ("780543022126", "il-central-1", "pytorch-trcomp-training"),
        ("780543022126", "il-central-1", "tensorflow-training"),
    ]


def test_a_workload_needs_the_images_of_its_arms_of_its_programs_and_of_the_gate() -> None:
    news = read_workload(find_workload("news-topics", PROJECT / "workloads"))
    assert image_folders_of(news) == {"training": "arms.baseline.image", "gate": "step Gate"}
