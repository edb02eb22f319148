"""The bucket: raw data, outputs of executions, models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from compilegate.access.layout import (
    checkpoints_prefix,
    executions_prefix,
    training_prefix,
)
from compilegate.account.settings.declaration import Storage


class ArtifactBucket(Construct):
    """An encrypted, versioned, private bucket that reports new objects to EventBridge."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        key: kms.IKey,
        storage: Storage,
        workloads: Sequence[str],
        removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            versioned=True,
            removal_policy=removal,
            lifecycle_rules=_lifecycle(storage, workloads),
        )
        # The L2 property would add a custom resource and a function for the same effect.
        resource = cast(s3.CfnBucket, self.bucket.node.default_child)
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(
                event_bridge_enabled=True
            )
        )
        cdk.Validations.of(self.bucket).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-S1",
                reason="CloudTrail's data events record who read what, for all buckets of an "
                "account; access logs would need a second bucket without this key.",
            )
        )


TEMPORARY = {
    "checkpoints": checkpoints_prefix,
    "executions": executions_prefix,
    "training": training_prefix,
}
"""What nobody needs for longer than the settings say, by the name of its lifecycle rule."""


def _lifecycle(storage: Storage, workloads: Sequence[str]) -> list[s3.LifecycleRule]:
    """What jobs wrote expires, by workload. Registered models and verdicts have places of their
    own, which no rule names: they stay for as long as the bucket does."""
    days = {"training": storage.training_days}
    return [
        s3.LifecycleRule(
            id="overwritten-and-unfinished",
            noncurrent_version_expiration=cdk.Duration.days(storage.noncurrent_days),
            abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
        ),
        *(
            s3.LifecycleRule(
                id=f"{kind}-of-{workload}",
                prefix=prefix(workload),
                expiration=cdk.Duration.days(days.get(kind, storage.execution_days)),
            )
            for workload in workloads
            for kind, prefix in TEMPORARY.items()
        ),
    ]
