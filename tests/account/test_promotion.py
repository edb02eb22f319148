"""A model goes to a stage in another region: with an image that lies there, or not at all."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from compilegate.account.promotion import ImageInRegionError, Promotion
from compilegate.account.registry import Registry
from compilegate.account.session import open_session
from compilegate.account.settings.declaration import Source
from tests.aws_server.client import ACCOUNT, MANIFEST, AwsServer

pytestmark = pytest.mark.slow

HERE, THERE = "eu-west-1", "us-east-1"
AWS = "763104351884.dkr.ecr.{}.amazonaws.com/pytorch-inference:2.5.1-gpu-py311"
OWN = f"{ACCOUNT}.dkr.ecr.{{}}.amazonaws.com/dev/serving"
ARCHIVE = "compilegate/workloads/topics/models/job/model.tar.gz"


@pytest.fixture
def promotion(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Promotion:
    """From the project `dev` there to `prod` here, both in one account."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    session = open_session(HERE)
    for region, project in ((THERE, "dev"), (HERE, "prod")):
        client = session.in_region(region).client("sagemaker")
        client.create_model_package_group(ModelPackageGroupName=f"{project}-topics")
        aws.client("s3").create_bucket(Bucket=project)
    source = Source(account=ACCOUNT, region=THERE, project="dev", bucket="dev")
    return Promotion(source, session, Registry(session, "prod"), "prod")


def push(promotion: Promotion, region: str, content: str) -> str:
    """Put an image of one's own into a registry; returns its digest."""
    ecr = promotion.session.in_region(region).client("ecr")
    ecr.create_repository(repositoryName="dev/serving")
    manifest = json.dumps({"mediaType": MANIFEST, "content": content})
    digest = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
    named = {"imageTag": "1", "imageDigest": digest}
    ecr.put_image(repositoryName="dev/serving", imageManifest=manifest, **named)
    return digest


def register(aws: AwsServer, image: str) -> None:
    aws.client("s3").put_object(Bucket="dev", Key=ARCHIVE, Body=b"the model")
    aws.client("sagemaker").create_model_package(
        ModelPackageGroupName="dev-topics",
        ModelApprovalStatus="Approved",
        InferenceSpecification={
            "Containers": [{"Image": image, "ModelDataUrl": f"s3://dev/{ARCHIVE}"}],
            "SupportedContentTypes": ["application/json"],
            "SupportedResponseMIMETypes": ["application/json"],
        },
        CustomerMetadataProperties={"arm": "baseline"},
    )


def container(description: Any) -> dict[str, Any]:
    (found,) = description["InferenceSpecification"]["Containers"]
    return dict(found)


@pytest.mark.parametrize("image", [AWS.format(THERE), AWS.format(HERE)], ids=["there", "here"])
def test_an_image_of_aws_is_taken_from_this_regions_registry(
    aws: AwsServer, promotion: Promotion, image: str
) -> None:
    register(aws, image)
    model, new = promotion.promote("topics", 1)
    assert (new, model.approval) == (True, "PendingManualApproval")
    assert container(model.description)["Image"] == AWS.format(HERE)
    assert container(model.description)["ModelDataUrl"] == f"s3://prod/{ARCHIVE}"
    assert aws.client("s3").get_object(Bucket="prod", Key=ARCHIVE)["Body"].read() == b"the model"
    assert promotion.promote("topics", 1) == (model, False)


def test_an_image_of_ones_own_is_the_replicated_one(aws: AwsServer, promotion: Promotion) -> None:
    digest = push(promotion, THERE, "the image")
    assert push(promotion, HERE, "the image") == digest
    register(aws, f"{OWN.format(THERE)}:1")
    model, _ = promotion.promote("topics", 1)
    assert container(model.description)["Image"] == f"{OWN.format(HERE)}@{digest}"


@pytest.mark.parametrize("replica", [None, "another image"])
def test_without_the_same_image_here_it_is_refused_before_anything_is_copied(
    aws: AwsServer, promotion: Promotion, replica: str | None
) -> None:
    push(promotion, THERE, "the image")
    if replica is not None:
        push(promotion, HERE, replica)
    register(aws, f"{OWN.format(THERE)}:1")
    with pytest.raises(ImageInRegionError, match="put-replication-configuration") as refused:
        promotion.promote("topics", 1)
    assert f'"region": "{HERE}"' in str(refused.value)
    assert aws.client("s3").list_objects_v2(Bucket="prod")["KeyCount"] == 0


def test_an_image_of_somebody_else_is_refused(aws: AwsServer, promotion: Promotion) -> None:
    register(aws, f"111122223333.dkr.ecr.{THERE}.amazonaws.com/theirs:1")
    with pytest.raises(ImageInRegionError, match="no image of that name is known in eu-west-1"):
        promotion.promote("topics", 1)
