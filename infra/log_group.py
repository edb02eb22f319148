"""Log groups: encrypted, kept for as long as the settings say, and deleted with their stack."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from compilegate.account.settings.declaration import LogDays


def log_group(
    scope: Construct, id: str, *, name: str, key: kms.IKey, days: LogDays
) -> logs.CfnLogGroup:
    """A log group; its name must be one that the key's policy allows."""
    group = logs.CfnLogGroup(
        scope, id, log_group_name=name, kms_key_id=key.key_arn, retention_in_days=days
    )
    group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
    return group
