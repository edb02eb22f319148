"""The local registry describes packages as SageMaker's does, also with writers at once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus
from compilegate.local import (
    ObjectStore,
    RegistryError,
    describe_package,
    list_groups,
    list_packages,
    set_approval,
)
from compilegate.local.errors import RefusedDefinitionError, StepRequestError
from compilegate.local.home.registry import (
    ModelPackage,
    create_package,
    read_package_request,
)

MODEL = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}


@pytest.mark.parametrize("name", ["", "two words", "topics!", "a" * 64, "-topics"])
def test_a_group_s_name_that_the_service_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(StepRequestError, match="ModelPackageGroupName"):
        read_package_request({"ModelPackageGroupName": name})


def register(home: Path, step: str = "s") -> ModelPackage:
    request = read_package_request({"ModelPackageGroupName": "g"})
    return create_package(home, request, ObjectStore(home / "s3"), execution_id="e", step=step)


@pytest.mark.slow
def test_a_registered_model_is_the_groups_next_version(bench: Any) -> None:
    steps = [
        bench.training("train"),
        bench.register("register", "reuters", MODEL),
        bench.processing(
            "announce",
            "import sys; print(sys.argv[1:])",
            arguments=[{"Get": "Steps.register.ModelPackageArn"}],
        ),
    ]
    steps[1]["Arguments"] |= {
        "ModelApprovalStatus": "PendingManualApproval",
        "CustomerMetadataProperties": {"arm": "inductor"},
    }
    first, second = bench.run(*steps), bench.run(*steps)
    assert list_groups(bench.home) == ["reuters"]
    packages = list_packages(bench.home, "reuters")
    assert [package.version for package in packages] == [1, 2]
    described = describe_package(bench.home, "reuters/2").description
    job = second.steps["train"].job_name
    assert described["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == (
        f"s3://bucket/training/{job}/output/model.tar.gz"
    )
    assert described["CustomerMetadataProperties"] == {"arm": "inductor"}
    origin = described["Origin"]
    assert (origin["ExecutionId"], origin["Step"]) == (second.execution_id, "register")
    arn = "arn:aws:sagemaker:local:000000000000:model-package/reuters/1"
    assert first.steps["announce"].log.read_text() == f"{[arn]}\n"
    assert describe_package(bench.home, arn) == packages[0]


def test_a_model_that_no_step_makes_is_refused_before_anything_starts(bench: Any) -> None:
    register = bench.register("register", "g", "s3://bucket/training/none.tar.gz")
    with pytest.raises(
        RefusedDefinitionError, match=r"register: s3://bucket/training/none\.tar\.gz is not"
    ):
        bench.run(bench.training("train"), register | {"DependsOn": ["train"]})
    assert list_groups(bench.home) == []


@pytest.mark.slow
def test_a_model_that_nobody_made_is_not_registered(bench: Any) -> None:
    """Its place was declared as one that a program fills, and none did."""
    result = bench.run(
        bench.training("train"),
        bench.register("register", "g", "s3://bucket/training/none.tar.gz", DependsOn=["train"]),
        later=["s3://bucket/training/"],
    )
    assert result.status is ExecutionStatus.FAILED
    assert "none.tar.gz is not in the local store" in result.failure
    assert list_packages(bench.home, "g") == []


def test_approval_can_be_given_and_taken_back_with_a_reason(tmp_path: Path) -> None:
    register(tmp_path)
    assert describe_package(tmp_path, "g/1").approval_status == "PendingManualApproval"
    set_approval(tmp_path, "g/1", "Approved", "looked at by two")
    approved = describe_package(tmp_path, "g/1")
    assert approved.approval_status == "Approved"
    assert approved.description["ApprovalDescription"] == "looked at by two"
    set_approval(tmp_path, approved.arn, "Rejected")
    assert describe_package(tmp_path, "g/1").approval_status == "Rejected"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("g/2", "there is no model package g/2; g/1"),
        ("none/1", "the group is empty"),
        ("g", "is neither GROUP/VERSION nor"),
        ("../g/1", "is neither GROUP/VERSION nor"),
    ],
)
def test_an_unknown_package_is_named(tmp_path: Path, reference: str, reason: str) -> None:
    register(tmp_path)
    with pytest.raises(RegistryError, match=reason):
        describe_package(tmp_path, reference)


def test_an_unknown_approval_status_is_refused(tmp_path: Path) -> None:
    register(tmp_path)
    with pytest.raises(RegistryError, match="'Fine' is unknown, allowed are Approved"):
        set_approval(tmp_path, "g/1", "Fine")


def test_a_step_registers_once_even_when_it_runs_twice(tmp_path: Path) -> None:
    first = register(tmp_path)
    assert register(tmp_path) == first
    assert register(tmp_path, step="other").version == 2


@pytest.mark.slow
def test_writers_at_once_get_different_versions(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from compilegate.local.home.registry import create_package, read_package_request\n"
        "from compilegate.local.home.object_store import ObjectStore\n"
        "home, name = Path(sys.argv[1]), sys.argv[2]\n"
        "asked = {'ModelPackageGroupName': 'g', 'ModelPackageDescription': f'by {name}'}\n"
        "request = read_package_request(asked)\n"
        "for index in range(10):\n"
        "    step = {'execution_id': name, 'step': str(index)}\n"
        "    create_package(home, request, ObjectStore(home / 's3'), **step)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name])
        for name in ("one", "two")
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    packages = list_packages(tmp_path, "g")
    assert [package.version for package in packages] == list(range(1, 21))
    origins = {tuple(package.description["Origin"].values()) for package in packages}
    assert len(origins) == 20
