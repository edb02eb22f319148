"""Documents for other tools: a workload's roles, its definition, and its doctor's jobs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compilegate.account.roles import aws_repositories
from compilegate.cli import main
from compilegate.workload import Arm, read_workload
from tests.account.command import compilegate
from tests.account.deployed import PIPELINE, ROLE, deploy
from tests.aws_server.client import PROJECT, AwsServer
from tests.workload.settled import settled_arm

ACCOUNT, REGION = "123456789012", "eu-central-1"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f"
BUCKET = f"compilegate-{ACCOUNT}-{REGION}"
PLACE = ("--account", ACCOUNT, "--region", REGION, "--key", KEY)


def ask(project: Path, *arguments: str | Path) -> Result:
    more = ("--project", project)
    return CliRunner().invoke(main, [str(each) for each in (*arguments, *more)])


def policies(project: Path, *arguments: str) -> dict[str, Any]:
    done = ask(project, "aws", "roles", "topics", *PLACE, *arguments)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_of(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.slow
@pytest.mark.parametrize("declared", ["PendingManualApproval", "Approved"])
def test_only_a_workload_that_declares_it_registers_models_as_approved(
    project: Path, declared: str
) -> None:
    file = project / "workloads" / "topics.toml"
    text = file.read_text()
    assert "approval" not in text
    file.write_text(text.replace("[registry]\n", f'[registry]\napproval = "{declared}"\n'))
    statements = policies(project)["pipeline"]["PolicyDocument"]["Statement"]
    registering = [each for each in statements if "CreateModelPackage" in str(each["Action"])]
    waiting = {"StringEquals": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}}
    conditions = [each.get("Condition") for each in registering]
    # On the group there is no status.
    assert conditions == ([None] if declared == "Approved" else [waiting, None])


@pytest.mark.slow
def test_each_role_trusts_one_service_of_one_account(project: Path) -> None:
    declared = project / "workloads" / "topics.toml"
    declared.write_text(declared.read_text() + '\n[schedule]\nexpression = "rate(7 days)"\n')
    found = policies(project)
    assert list(found) == ["training", "processing", "pipeline", "schedule"]
    for kind, role in found.items():
        assert role["RoleName"] == f"compilegate-topics-{kind}"
        (trusted,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trusted["Condition"]["StringEquals"] == {"aws:SourceAccount": ACCOUNT}
    (clock,) = found["schedule"]["AssumeRolePolicyDocument"]["Statement"]
    assert clock["Principal"] == {"Service": "scheduler.amazonaws.com"}


@pytest.mark.slow
def test_code_is_the_one_thing_in_the_bucket_that_is_shared(project: Path) -> None:
    found = policies(project)
    for kind in ("training", "processing"):
        statements = {each["Sid"]: each for each in found[kind]["PolicyDocument"]["Statement"]}
        read = statements["ReadObjects"]["Resource"]
        assert f"arn:aws:s3:::{BUCKET}/compilegate/source/*" in read
        assert f"arn:aws:s3:::{BUCKET}/*" not in read
        listing = statements["ListCode"]["Condition"]["StringLike"]["s3:prefix"]
        assert listing == ["compilegate/source/*"]


@pytest.mark.long
@pytest.mark.slow
def test_the_definition_names_the_roles_and_objects_that_go_with_it(
    project: Path, tmp_path: Path
) -> None:
    output, objects = tmp_path / "definition.json", tmp_path / "upload"
    done = ask(project, "pipeline", "compile", "topics", *PLACE, "-o", output, "--objects", objects)
    assert done.exit_code == 0, done.stderr
    assert f"aws s3 sync {objects / BUCKET} s3://{BUCKET}" in done.stderr
    texts = texts_of(json.loads(output.read_text()))
    named = {text.rpartition("/")[2] for text in texts if ":role/" in text}
    assert named == {policies(project)[kind]["RoleName"] for kind in ("training", "processing")}
    staged = set(re.findall(r"s3://[\w/.-]+/source/[\w.-]+", output.read_text()))
    assert len(staged) >= 4
    for text in staged:
        assert (objects / text.removeprefix("s3://")).is_file()
    data = next(text for text in texts if text.startswith(f"s3://{BUCKET}/compilegate/data/"))
    assert {path.name for path in (objects / data.removeprefix("s3://")).iterdir()} == {
        "train.csv",
        "validation.csv",
    }
    images = {text for text in texts if ".dkr.ecr." in text and "/compilegate/" in text}
    assert {image.partition("/")[0] for image in images} == {
        f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
    }


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--account", "12"), "account is '12', expected twelve digits"),
        (("--region", "europe"), "region is 'europe', expected a region such as us-east-1"),
        (("--key", "alias/x"), "key is 'alias/x', expected arn:aws:kms:REGION:ACCOUNT:key/ID"),
    ],
    ids=["account", "region", "key"],
)
def test_what_no_account_could_be_is_refused(
    project: Path, arguments: tuple[str, str], refusal: str
) -> None:
    given = dict(zip(PLACE[::2], PLACE[1::2], strict=True)) | {arguments[0]: arguments[1]}
    done = ask(
        project, "aws", "roles", "topics", *(each for pair in given.items() for each in pair)
    )
    assert done.exit_code == 2
    assert refusal in done.stderr


def test_a_posture_needs_what_other_tools_do_not_make(project: Path) -> None:
    declared = project / "workloads" / "topics.toml"
    declared.write_text(declared.read_text() + "\n[posture]\n")
    done = ask(project, "aws", "roles", "topics", *PLACE)
    assert done.exit_code == 2
    assert "posture: found [posture], allowed: none where other tools deploy" in done.stderr


def test_options_of_an_account_need_the_account(project: Path, tmp_path: Path) -> None:
    done = ask(project, "pipeline", "compile", "topics", "--objects", tmp_path)
    assert done.exit_code == 2
    assert "--objects needs --account" in done.stderr


@pytest.mark.slow
def test_the_doctor_s_jobs_are_those_of_the_deployed_definition(
    aws: AwsServer, project: Path
) -> None:
    golden = (PROJECT / "tests" / "pipelines" / "golden" / "topics.json").read_text()
    account = deploy(aws, golden.replace("000000000000", "123456789012"))
    done = compilegate(aws, project, "doctor", "topics", "--aws", "-o", "doctor.json")
    assert done.returncode == 0, done.stderr
    definition = (project / "doctor.json").read_text()
    steps = json.loads(definition)["Steps"]
    assert steps[0]["Name"] == "Doctor-baseline"
    assert all(
        "123456789012" in each["Arguments"]["AlgorithmSpecification"]["TrainingImage"]
        for each in steps
    )
    assert f"--role-arn {ROLE}-pipeline" in done.stdout
    # The service takes what was written, and no pipeline of the project's was touched.
    sagemaker = account.server.client("sagemaker")
    sagemaker.create_pipeline(
        PipelineName="topics-doctor", PipelineDefinition=definition, RoleArn=f"{ROLE}-pipeline"
    )
    kept = sagemaker.describe_pipeline(PipelineName=PIPELINE)["PipelineDefinition"]
    assert "Doctor-" not in kept


@pytest.mark.slow
def test_the_doctor_s_jobs_need_a_deployment_and_a_file(aws: AwsServer, project: Path) -> None:
    for more, refusal in (([], "--aws needs --output FILE"), (["-o", "x"], "there is no stack")):
        done = compilegate(aws, project, "doctor", "topics", "--aws", *more)
        assert done.returncode == 2
        assert refusal in done.stderr
        assert not (project / "x").exists()


def arm(framework: str, version: str, **more: str) -> Arm:
    return settled_arm(
        compiler="training-compiler",
        batch_size=8,
        learning_rate=1e-3,
        training_compiler={"framework": framework, "version": version},
        **more,
    )


def test_each_repository_of_aws_is_named_once_in_the_account_of_the_region() -> None:
    workload = read_workload(PROJECT / "tests" / "pipelines" / "topics.toml")
    assert aws_repositories([workload], "us-east-1") == [], "arms in the project's images need none"
    arms = {
        "newest": arm("pytorch", "1.13.1", image="aws"),
        "older": arm("pytorch", "1.12.0", image="aws"),
        "other": arm("tensorflow", "2.11.0", image="aws"),
        "own": arm("pytorch", "1.13.1"),
    }
    declared = workload.model_copy(update={"arms": {**workload.arms, **arms}})
    found = aws_repositories([declared, declared], "il-central-1")
    assert [(each.account, each.region, each.name) for each in found] == [
        ("780543022126", "il-central-1", "pytorch-trcomp-training"),
        ("780543022126", "il-central-1", "tensorflow-training"),
    ]
