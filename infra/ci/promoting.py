"""What it takes to bring a model from the stage before. Pure: ARNs in, statements out."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.access import Arns, Statement
from compilegate.access.jobs import ANY, MANY_OBJECTS, NO_RESOURCE
from compilegate.access.sharing import SHARED_PREFIXES

OF_THE_PROJECT = "Workloads come and go, and their models are numbered"


@dataclass(frozen=True, kw_only=True)
class Place:
    """The stage that models come from."""

    arns: Arns
    project: str
    bucket_arn: str


def promoting(arns: Arns, project: str, bucket_arn: str, source: Place) -> list[Statement]:
    """Read an approved model and its verdict there, keep them here, and register it as waiting."""
    prefixes = [prefix("*") for prefix in SHARED_PREFIXES]
    return [
        Statement(
            sid="SeeModelsBefore",
            actions=["sagemaker:DescribeModelPackage"],
            resources=[source.arns.sagemaker(f"model-package/{source.project}-*/*")],
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="ReadModelsBefore",
            actions=["s3:GetObject"],
            resources=[f"{source.bucket_arn}/{prefix}*" for prefix in prefixes],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="DecryptModelsBefore",
            actions=["kms:Decrypt"],
            resources=[source.arns.of_service("kms", "key/*")],
            conditions={
                "StringEquals": {"kms:ViaService": f"s3.{source.arns.region}.amazonaws.com"}
            },
            because="The settings name the stage before and not its key, whose policy decides",
        ),
        Statement(
            sid="KeepPromoted",
            actions=["s3:AbortMultipartUpload", "s3:PutObject"],
            resources=[f"{bucket_arn}/{prefix}*" for prefix in prefixes],
            because=MANY_OBJECTS,
        ),
        Statement(
            sid="FindPromoted",
            actions=["sagemaker:ListModelPackageGroups", "sagemaker:ListModelPackages"],
            resources=[ANY],
            because=NO_RESOURCE,
        ),
        Statement(
            sid="RegisterPromoted",
            actions=["sagemaker:CreateModelPackage"],
            resources=[arns.sagemaker(f"model-package/{project}-*/*")],
            conditions={"StringEquals": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}},
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="RegisterInGroups",
            actions=["sagemaker:CreateModelPackage"],
            resources=[arns.sagemaker(f"model-package-group/{project}-*")],
            because=OF_THE_PROJECT,
        ),
    ]
