"""What somebody may do who approves models, and nothing else. Pure: ARNs in, statements out."""

from __future__ import annotations

from compilegate.access.arns import Arns
from compilegate.access.jobs import ANY, MANY_OBJECTS, NO_RESOURCE
from compilegate.access.layout import verdicts_prefix
from compilegate.access.statement import Statement

OF_THE_PROJECT = "Groups come and go with workloads, and their versions are numbered"
DECISIONS = ("Approved", "PendingManualApproval", "Rejected")


def approver_statements(
    *, arns: Arns, project: str, bucket_arn: str, key_arn: str
) -> list[Statement]:
    """Look at models and the verdicts on them, and decide."""
    return [
        Statement(
            sid="Decide",
            actions=["sagemaker:UpdateModelPackage"],
            resources=[arns.sagemaker(f"model-package/{project}-*/*")],
            # So that no other member of a package can be changed alone.
            conditions={"StringEquals": {"sagemaker:ModelApprovalStatus": list(DECISIONS)}},
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="SeeModels",
            actions=["sagemaker:DescribeModelPackage"],
            resources=[arns.sagemaker(f"model-package/{project}-*/*")],
            because=OF_THE_PROJECT,
        ),
        Statement(
            sid="FindModels",
            actions=["sagemaker:ListModelPackageGroups", "sagemaker:ListModelPackages"],
            resources=[ANY],
            because=NO_RESOURCE,
        ),
        Statement(
            sid="ReadVerdicts",
            actions=["s3:GetObject"],
            resources=[f"{bucket_arn}/{verdicts_prefix('*')}*"],
            because=MANY_OBJECTS,
        ),
        Statement(sid="UseKey", actions=["kms:Decrypt"], resources=[key_arn]),
    ]
