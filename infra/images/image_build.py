"""The build of one image: a CodeBuild project that does nothing if the image already exists.

`builder.py` starts it when its stack has been created or updated, and `compilegate aws images
--build` at any other time. It has no limit of concurrent builds: CodeBuild refuses what is above a
project's own limit, and queues what is above the account's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from compilegate.access import Arns
from compilegate.catalog.images import EcrRepository, ecr_repository
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.images.permissions import build_statements
from compilegate.infra.parts import log_group, scoped_role, service_principal
from compilegate.infra.project import Project
from compilegate.pipelines.staging import ImageFolder

BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"


class ImageBuild(Construct):
    """Builds one image folder on its base image and pushes it under its content's tag."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        foundation: FoundationStack,
        image: ImageFolder,
        base_uri: str,
        base_name: str,
    ) -> None:
        super().__init__(scope, id)
        names, network = project.names, project.settings.network
        build_name = names.build_project(image.name)
        context = assets.Asset(self, "Folder", path=str(image.folder), exclude=["__pycache__"])
        self.log_group = log_group(
            self,
            "Logs",
            name=f"/aws/codebuild/{build_name}",
            key=foundation.key,
            days=project.settings.storage.log_days,
        )
        # A private registry needs a login and a permission to pull.
        base = ecr_repository(base_uri)
        self.base_repository_arn = (
            Arns.of(cdk.Stack.of(self)).repository(base.name, base.account) if base else None
        )
        self.project = codebuild.CfnProject(
            self,
            "Project",
            name=build_name,
            description=f"Builds the image {image.name} unless it exists",
            service_role=self._role(project, foundation, image, context, base).role_arn,
            encryption_key=foundation.key.key_arn,
            source={
                "type": "S3",
                "location": f"{context.s3_bucket_name}/{context.s3_object_key}",
                "buildSpec": json.dumps(_build_specification(logs_in_to_base=base is not None)),
            },
            artifacts={"type": "NO_ARTIFACTS"},
            environment=_environment(
                project.settings.images.build_machine,
                {
                    "REPOSITORY": names.repository(image.name),
                    "REGISTRY": registry_of(cdk.Stack.of(self)),
                    "TAG": image.tag,
                    "BASE_IMAGE": base_uri,
                    "BASE_NAME": base_name,
                    "BASE_REGISTRY": base.host if base else "",
                    # With attestations an image index is pushed, and SageMaker wants an image.
                    "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
                },
            ),
            logs_config={
                "cloudWatchLogs": {
                    "status": "ENABLED",
                    "groupName": self.log_group.log_group_name,
                }
            },
            timeout_in_minutes=project.settings.images.build_timeout_minutes,
            vpc_config={
                "vpcId": network.vpc_id,
                "subnets": network.subnets,
                "securityGroupIds": network.security_groups,
            }
            if network.vpc_id
            else None,
        )
        cdk.Validations.of(self.project).acknowledge(
            cdk.Acknowledgment(
                id="AwsSolutions-CB3",
                reason="`docker build` needs a privileged container; nothing else is run in it.",
            )
        )

    def _role(
        self,
        project: Project,
        foundation: FoundationStack,
        image: ImageFolder,
        context: assets.Asset,
        base: EcrRepository | None,
    ) -> iam.IRole:
        """Reads one folder, pulls one base, pushes to one repository."""
        arns, network = Arns.of(cdk.Stack.of(self)), project.settings.network
        return scoped_role(
            self,
            "Role",
            trusted=service_principal(self, "codebuild"),
            description=f"Build the image {image.name}",
            statements=build_statements(
                arns=arns,
                log_group=f"/aws/codebuild/{project.names.build_project(image.name)}",
                assets_arn=arns.bucket(context.s3_bucket_name),
                source_key=context.s3_object_key,
                repository_arn=foundation.repository_arn(image.name),
                base_repository_arn=arns.repository(base.name, base.account) if base else None,
                key_arn=foundation.key.key_arn,
                subnets=network.subnets if network.vpc_id else (),
            ),
        )


def _environment(machine: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """The machine that builds, and the variables of its commands."""
    return {
        "type": "LINUX_CONTAINER",
        "computeType": f"BUILD_GENERAL1_{machine.upper()}",
        "image": BUILD_IMAGE,
        "privilegedMode": True,
        "environmentVariables": [
            {"name": name, "value": value} for name, value in variables.items()
        ],
    }


def registry_of(stack: cdk.Stack) -> str:
    """The host of this account's registry."""
    return f"{stack.account}.dkr.ecr.{stack.region}.{stack.url_suffix}"


def _build_specification(*, logs_in_to_base: bool) -> dict[str, Any]:
    """What CodeBuild runs. `set -e` ends a phase at the first command that fails."""
    log_in = 'aws ecr get-login-password | docker login --username AWS --password-stdin "{}"'
    there = (
        'aws ecr describe-images --repository-name "$REPOSITORY" --image-ids imageTag="$TAG"'
        " > /dev/null"
    )
    build = [
        "set -e",
        f"if {there}; then",
        '  echo "$REPOSITORY:$TAG already exists: nothing to build"',
        "  exit 0",
        "fi",
        log_in.format("$REGISTRY"),
        *([log_in.format("$BASE_REGISTRY")] if logs_in_to_base else []),
        # Which image the base was, also where it is named by a tag.
        'docker pull --quiet "$BASE_IMAGE"',
        "BASE_DIGEST=$(docker image inspect --format '{{index .RepoDigests 0}}' \"$BASE_IMAGE\")",
        'docker build --build-arg BASE_IMAGE="$BASE_IMAGE"'
        ' --label org.opencontainers.image.base.digest="${BASE_DIGEST##*@}"'
        ' --tag "$REGISTRY/$REPOSITORY:$TAG" .',
        # Of two builds at the same time, the second finds the tag taken by the same image.
        f'docker push "$REGISTRY/$REPOSITORY:$TAG" || {there}',
    ]
    return {
        "version": "0.2",
        "env": {"shell": "bash"},
        "phases": {"build": {"on-failure": "ABORT", "commands": ["\n".join(build)]}},
    }
