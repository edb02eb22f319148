"""The one key that everything at rest is encrypted with."""

from __future__ import annotations

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from compilegate.access import Arns
from compilegate.infra.parts import service_principal


class EncryptionKey(Construct):
    """A key that rotates, and that two services may use: logs and alarms."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        alias: str,
        project: str,
        existing_arn: str | None,
        deployed_by: str | None,
        removal: RemovalPolicy,
    ) -> None:
        super().__init__(scope, id)
        self.key: kms.IKey
        if existing_arn is None:
            # pyrefly: ignore[bad-assignment]  # the CDK names a parameter in two ways
            self.key = self._made(alias, project, deployed_by, removal)
        else:
            # CloudFormation cannot change the policy of a key that it did not make.
            self.key = kms.Key.from_key_arn(self, "Key", existing_arn)
            kms.Alias(self, "Alias", alias_name=alias, target_key=self.key)

    def _made(
        self, alias: str, project: str, deployed_by: str | None, removal: RemovalPolicy
    ) -> kms.Key:
        arns = Arns.of(Stack.of(self))
        key = kms.Key(
            self,
            "Key",
            alias=alias,
            description=f"Everything that {project} keeps",
            enable_key_rotation=True,
            removal_policy=removal,
        )
        if deployed_by is not None:
            # The tag of a key counts only minutes after it was made, and CloudFormation goes on.
            key.add_to_resource_policy(
                iam.PolicyStatement(
                    sid="Deploy",
                    # pyrefly: ignore[bad-argument-type]  # and here
                    principals=[iam.ArnPrincipal(deployed_by)],
                    actions=["kms:*"],
                    resources=["*"],
                )
            )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="EncryptLogGroups",
                # pyrefly: ignore[bad-argument-type]  # and here
                principals=[iam.ServicePrincipal(f"logs.{arns.region}.amazonaws.com")],
                actions=["kms:Decrypt", "kms:Encrypt", *GENERATE, *RE_ENCRYPT],
                resources=["*"],
                conditions={
                    "ArnLike": {
                        "kms:EncryptionContext:aws:logs:arn": [
                            arns.log_group(f"/aws/codebuild/{project}-*"),
                            arns.log_group(f"/aws/lambda/{project}-*"),
                            arns.log_group(f"/aws/sagemaker/Endpoints/{project}-*"),
                            arns.log_group(f"/aws/vpc/{project}-*"),
                        ]
                    }
                },
            )
        )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="SendAlarmsToTheTopic",
                principals=[
                    service_principal(
                        self,
                        "cloudwatch",
                        source_arn=arns.of_service("cloudwatch", f"alarm:{project}-*"),
                    )
                ],
                actions=["kms:Decrypt", *GENERATE],
                resources=["*"],
            )
        )
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="SendBudgetsToTheTopic",
                principals=[service_principal(self, "budgets")],
                actions=["kms:Decrypt", *GENERATE],
                resources=["*"],
            )
        )
        return key


GENERATE = ["kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"]
RE_ENCRYPT = ["kms:ReEncryptFrom", "kms:ReEncryptTo"]
