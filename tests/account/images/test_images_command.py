"""The real command against ECR and CodeBuild: what is there, what is built, what is said."""

from __future__ import annotations

import json
import shutil
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from compilegate.account.settings.names import output_suffix
from compilegate.cli import main
from compilegate.pipelines.requests.regions import regions
from compilegate.pipelines.staging import image_tags
from tests.account.command import compilegate, environment
from tests.account.deployed import FOUNDATION, REGISTRY, create_stack
from tests.aws_server.client import PROJECT, AwsServer

WORKLOAD = PROJECT / "tests" / "pipelines" / "topics.toml"
IMAGES = ("gate", "neuron", "training", "training-compiler", "xgboost")

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real image folders, and a workload that uses two of them."""
    shutil.copytree(PROJECT / "containers", tmp_path / "containers")
    (tmp_path / "workloads").mkdir()
    shutil.copy(WORKLOAD, tmp_path / "workloads" / "topics.toml")
    return tmp_path


@pytest.fixture
def account(aws: AwsServer, checkout: Path) -> AwsServer:
    """An account in which the images of the checkout are deployed and none is built."""
    tags = image_tags(checkout / "containers")
    outputs = {}
    for image in IMAGES:
        aws.client("ecr").create_repository(repositoryName=f"compilegate/{image}")
        outputs[f"ImageUri{output_suffix(image)}"] = f"{REGISTRY}/{image}:{tags[image]}"
        outputs[f"BuildProject{output_suffix(image)}"] = f"compilegate-{image}"
        aws.client("codebuild").create_project(
            name=f"compilegate-{image}",
            source={"type": "S3", "location": "assets/context.zip"},
            artifacts={"type": "NO_ARTIFACTS"},
            environment={
                "type": "LINUX_CONTAINER",
                "image": "aws/codebuild/amazonlinux-x86_64-standard:5.0",
                "computeType": "BUILD_GENERAL1_MEDIUM",
                "environmentVariables": [
                    {"name": "REPOSITORY", "value": f"compilegate/{image}"},
                    {"name": "TAG", "value": tags[image]},
                ],
            },
            serviceRole="arn:aws:iam::123456789012:role/build",
        )
    create_stack(aws, "compilegate-images", outputs)
    return aws


def images(aws: AwsServer, checkout: Path, *arguments: str) -> Result:
    """The command in this process, which spares the second that a new one takes to start."""
    with chdir(checkout):
        return CliRunner().invoke(main, ["aws", "images", *arguments], env=environment(aws))


def states(listing: str) -> dict[str, str]:
    """State by image, from the table that the command prints."""
    rows = [line.split() for line in listing.splitlines() if line.startswith(IMAGES)]
    return {row[0]: row[2] for row in rows if not row[0].endswith(":")}


def test_what_is_missing_is_built_once_and_then_there(account: AwsServer, checkout: Path) -> None:
    before = compilegate(account, checkout, "aws", "images")
    assert before.returncode == 0, before.stderr
    assert states(before.stdout) == dict.fromkeys(IMAGES, "missing")
    assert "training-compiler: AWS no longer patches its base" in before.stdout
    assert account.calls("StartBuild") == []

    built = compilegate(account, checkout, "aws", "images", "--build", "--wait")
    assert built.returncode == 0, built.stderr
    assert "training: build compilegate-training:build003 started" in built.stdout
    assert "training-compiler  succeeded after 90 s" in built.stdout
    assert len(account.calls("StartBuild")) == len(IMAGES)

    again = compilegate(account, checkout, "aws", "images", "--build", "--wait")
    assert again.returncode == 0
    assert states(again.stdout) == dict.fromkeys(IMAGES, "built")
    assert "nothing to build" in again.stdout
    assert len(account.calls("StartBuild")) == len(IMAGES)


def test_one_image_can_be_named_and_a_build_that_goes_on_is_not_started_again(
    account: AwsServer, checkout: Path
) -> None:
    account.script_builds("compilegate-gate", {"status": "IN_PROGRESS", "phase": "BUILD"})
    started = images(account, checkout, "--build", "gate")
    assert started.exit_code == 0, started.stderr
    assert states(started.stdout) == {"gate": "missing"}
    listed = images(account, checkout, "--build", "gate")
    assert states(listed.stdout) == {"gate": "building"}
    assert "nothing to build" in listed.stdout
    assert len(account.calls("StartBuild")) == 1


def test_a_failed_build_says_why_and_can_be_started_again(
    account: AwsServer, checkout: Path
) -> None:
    account.script_builds(
        "compilegate-training",
        {"status": "IN_PROGRESS", "phase": "BUILD"},
        {"status": "FAILED", "message": "docker build: exit status 1"},
    )
    failed = images(account, checkout, "--build", "--wait", "training")
    assert failed.exit_code == 3
    why = (
        "training: build compilegate-training:build001 failed: build: docker build: exit status 1\n"
        "  log: https://console.aws.amazon.com/cloudwatch/#compilegate-training:build001"
    )
    assert f"error: {why}" in failed.stderr
    account.script_builds("compilegate-training", {"status": "SUCCEEDED"})
    again = images(account, checkout, "--build", "--wait", "training")
    assert states(again.stdout) == {"training": "failed"}
    assert why in again.stdout
    assert again.exit_code == 0, again.stderr
    assert states(images(account, checkout).stdout)["training"] == "built"


def test_a_changed_folder_is_stale_and_has_to_be_deployed(
    account: AwsServer, checkout: Path
) -> None:
    tag = image_tags(checkout / "containers")["gate"]
    with (checkout / "containers" / "gate" / "requirements.txt").open("a") as file:
        file.write("# changed\n")
    listed = images(account, checkout)
    assert states(listed.stdout)["gate"] == "stale"
    assert (
        f"gate: containers/gate has changed since {tag} was deployed; make deploy builds it"
        in listed.stdout
    )
    refused = images(account, checkout, "--build")
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"error: gate: containers/gate has changed since {tag} was deployed; make deploy builds "
        "it\n"
    )
    assert account.calls("StartBuild") == []


def test_a_new_folder_is_missing_until_it_is_deployed(account: AwsServer, checkout: Path) -> None:
    shutil.copytree(checkout / "containers" / "gate", checkout / "containers" / "gather")
    declared = checkout / "workloads" / "topics.toml"
    text = declared.read_text()
    assert "[arms.baseline]\n" in text
    declared.write_text(text.replace("[arms.baseline]\n", '[arms.baseline]\nimage = "gather"\n'))
    listed = images(account, checkout, "gather")
    assert "gather: containers/gather is not deployed yet; make deploy builds it" in listed.stdout
    refused = images(account, checkout, "gather", "--build")
    assert refused.exit_code == 2
    assert "containers/gather is not deployed yet" in refused.stderr


def test_an_image_that_no_workload_uses_is_not_built(account: AwsServer, checkout: Path) -> None:
    shutil.copytree(checkout / "containers" / "gate", checkout / "containers" / "spare")
    listed = images(account, checkout, "--build")
    assert listed.exit_code == 0, listed.stderr
    assert "spare: no workload uses it, so it is not built" in listed.stdout
    assert len(account.calls("StartBuild")) == len(IMAGES)
    refused = images(account, checkout, "--build", "spare")
    assert refused.exit_code == 2
    assert refused.stderr == "error: spare: no workload uses it, so it is not built\n"


def test_builds_for_which_the_quota_has_no_room_wait_for_it(
    account: AwsServer, checkout: Path
) -> None:
    """As in a new account, whose quota of builds and queue is none until AWS raises it."""
    account.fail(
        "StartBuild",
        "AccountLimitExceededException",
        message="Cannot have more than 0 builds in queue for the account",
        times=3,
    )
    built = images(account, checkout, "--build", "--wait", "gate", "training")
    assert built.exit_code == 0, built.stderr
    assert built.stdout.count("waiting: the account's quota lets no further build start") == 2
    assert "Service Quotas console" in built.stdout
    assert states(images(account, checkout, "gate", "training").stdout) == {
        "gate": "built",
        "training": "built",
    }


def test_what_each_region_lacks_is_listed_without_asking_aws(
    aws: AwsServer, checkout: Path
) -> None:
    listed = images(aws, checkout, "--regions")
    assert listed.exit_code == 0, listed.stderr
    rows = listed.stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == regions()
    assert {row.split()[-1] for row in rows} == {"-"}
    (mexico,) = [row for row in rows if row.startswith("mx-central-1")]
    assert "neuron, training-compiler" in mexico
    declared = checkout / "workloads" / "topics.toml"
    text = declared.read_text()
    declared.write_text(text.replace("[arms.baseline]\n", '[arms.baseline]\nimage = "neuron"\n'))
    rows = images(aws, checkout, "--regions").stdout.splitlines()
    (mexico,) = [row for row in rows if row.startswith("mx-central-1")]
    assert mexico.endswith(" topics")
    assert aws.calls("DescribeStacks") == []


def test_the_doctor_says_what_the_account_lacks(account: AwsServer, checkout: Path) -> None:
    bucket = FOUNDATION["BucketName"]
    account.client("s3").create_bucket(Bucket=bucket)
    create_stack(account, "compilegate-foundation", FOUNDATION)
    for name in ("train", "validation"):
        (checkout / "workloads" / f"{name}.csv").write_text("number,body,topic\n1,oil,crude\n")
    images(account, checkout, "--build", "--wait", "gate")
    account.set_quotas({"Concurrently running builds for Linux/Medium environment": 0})

    def doctor() -> dict[str, dict[str, str]]:
        with chdir(checkout):
            asked = CliRunner().invoke(
                main, ["doctor", "--aws", "--json"], env=environment(account)
            )
        assert asked.exit_code == 0, asked.stderr
        return {finding["what"]: finding for finding in json.loads(asked.stdout)}

    before = doctor()
    assert {what: found["answer"] for what, found in before.items()} == {
        "image gate": "has",
        "image training": "lacks",
        "builds": "lacks",
        "data topics": "lacks",
    }
    assert "no image can be built, so they wait: ask for more" in before["builds"]["sentence"]
    assert before["data topics"]["sentence"].endswith("is not there; compilegate aws upload topics")

    with chdir(checkout):
        staged = CliRunner().invoke(main, ["aws", "upload", "--all"], env=environment(account))
    assert staged.exit_code == 0, staged.stderr
    account.set_quotas({"Concurrently running builds for Linux/Medium environment": 1})
    after = doctor()
    assert (after["data topics"]["answer"], after["builds"]["answer"]) == ("has", "has")


def test_what_a_scan_found_is_in_the_list(account: AwsServer, checkout: Path) -> None:
    images(account, checkout, "--build", "--wait", "gate")
    before = images(account, checkout, "gate").stdout
    assert "built  not scanned" in before
    account.client("ecr").start_image_scan(
        repositoryName="compilegate/gate",
        imageId={"imageTag": image_tags(checkout / "containers")["gate"]},
    )
    after = images(account, checkout, "gate").stdout
    assert "built  1 high " in after
    (listed,) = json.loads(images(account, checkout, "gate", "--json").stdout)
    assert (listed["image"], listed["state"]) == ("gate", "built")
    assert listed["vulnerabilities"] == {"HIGH": 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "containers has no image folder 'nothing'; it has gate, neuron, training"),
        (["--json", "--build"], "--build does not go with --json"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    account: AwsServer, checkout: Path, arguments: list[str], said: str
) -> None:
    refused = images(account, checkout, *arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr


def test_before_anything_is_deployed_there_is_one_sentence(aws: AwsServer, checkout: Path) -> None:
    refused = images(aws, checkout)
    assert refused.exit_code == 2
    assert refused.stderr == (
        "error: there is no stack compilegate-images in account 123456789012, us-east-1; "
        "deploy it with: make deploy\n"
    )


def test_a_refused_question_is_one_sentence(account: AwsServer, checkout: Path) -> None:
    account.fail("DescribeImages", "ThrottlingException", message="Rate exceeded")
    refused = images(account, checkout)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: cannot look for compilegate/gate:")
    assert refused.stderr.count("\n") == 1
