"""A deployment as the tests see it: the project, the account, and the command between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.aws_server.client import AwsServer
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.project import Project


@dataclass(frozen=True)
class Deployment:
    """A project, the account it is deployed to, and the command that deploys it."""

    project: Project
    aws: AwsServer
    cdk: Cdk

    def outputs(self, stack: str) -> dict[str, str]:
        """Of one stack, by name."""
        (found,) = self.aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {item["OutputKey"]: item["OutputValue"] for item in found.get("Outputs", [])}

    def stacks(self) -> dict[str, str]:
        """The status of each stack but the CDK's own, by name."""
        found = self.aws.client("cloudformation").describe_stacks()["Stacks"]
        return {
            stack["StackName"]: stack["StackStatus"]
            for stack in found
            if not stack["StackName"].startswith("CDKToolkit")
        }

    def pipeline(self) -> dict[str, Any]:
        described: dict[str, Any] = self.aws.client("sagemaker").describe_pipeline(
            PipelineName=self.outputs("trial-workload-tiny")["PipelineName"]
        )
        return described
