"""The images stack: what builds each folder of `containers/` that a workload uses.

One CodeBuild project builds them all. `compilegate aws images --build` starts a build with one
image's folder, base and tag, which it reads from this stack's outputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from compilegate.access import Arns, Statement
from compilegate.access.jobs import ANY, NO_RESOURCE, pull_images
from compilegate.access.policy import may
from compilegate.account.settings.names import output_suffix
from compilegate.catalog.images import ecr_repository
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import acknowledge, scoped_role, service_principal, stack_options
from compilegate.infra.project import Project

BUILD_IMAGE = "aws/codebuild/amazonlinux-x86_64-standard:5.0"

BUILD = """\
set -e
is_there() {
  aws ecr describe-images --repository-name "$REPOSITORY" --image-ids imageTag="$TAG" > /dev/null
}
log_in() {
  aws ecr get-login-password | docker login --username AWS --password-stdin "$1"
}
if [ "${BASE_IMAGE#*@sha256:}" = "$BASE_IMAGE" ]; then
  echo "BASE_IMAGE is $BASE_IMAGE, expected an image by its digest" >&2
  exit 1
fi
if is_there; then
  echo "$REPOSITORY:$TAG already exists: nothing to build"
  exit 0
fi
aws s3 cp --quiet "s3://$SOURCE" folder.zip
python3 -m zipfile --extract folder.zip folder
log_in "$REGISTRY"
if [ -n "$BASE_REGISTRY" ]; then log_in "$BASE_REGISTRY"; fi
docker build --build-arg BASE_IMAGE="$BASE_IMAGE" \\
  --label org.opencontainers.image.base.digest="${BASE_IMAGE##*@}" \\
  --tag "$REGISTRY/$REPOSITORY:$TAG" folder
# Of two builds at the same time, the second finds the tag taken by the same image.
docker push "$REGISTRY/$REPOSITORY:$TAG" || is_there
"""
SPECIFICATION = {
    "version": "0.2",
    "env": {"shell": "bash"},
    "phases": {"build": {"on-failure": "ABORT", "commands": [BUILD]}},
}
"""What CodeBuild runs. The caller gives SOURCE, REPOSITORY, TAG, BASE_IMAGE and BASE_REGISTRY;
the last is empty where the base's registry wants no login."""

PUSHING = [
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
]


class ImagesStack(cdk.Stack):
    """Builds what the workloads use, and names the URI that each image has once it is built."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        foundation: FoundationStack,
        env: cdk.Environment,
    ) -> None:
        super().__init__(
            scope, id, **stack_options(project, env, "Compilegate: the builds of its images")
        )
        names, arns = project.names, Arns.of(self)
        registry = f"{self.account}.dkr.ecr.{self.region}.{self.url_suffix}"
        self.image_uris: Mapping[str, str] = {
            name: f"{registry}/{names.repository(name)}:{image.tag}"
            for name, image in project.images.items()
        }
        """The URI of each image, of those too that nothing uses yet and that are not built."""

        folders: list[str] = []
        base_arns, unpinned = set[str](), set[str]()
        for name, image in project.built_images.items():
            suffix, base = output_suffix(name), image.base_uri(self.region)
            folder = assets.Asset(self, suffix, path=str(image.folder), exclude=["__pycache__"])
            folders.append(arns.bucket(f"{folder.s3_bucket_name}/{folder.s3_object_key}"))
            # A private registry needs a login, and a permission to pull.
            private = ecr_repository(base)
            if private is not None:
                base_arns.add(arns.repository(private.name, private.account))
            if "@" not in base:
                unpinned.add(image.base_name)
            variables = {
                "SOURCE": f"{folder.s3_bucket_name}/{folder.s3_object_key}",
                "REPOSITORY": names.repository(name),
                "TAG": image.tag,
                "BASE_IMAGE": base,
                "BASE_REGISTRY": private.host if private else "",
            }
            cdk.CfnOutput(self, f"ImageUri{suffix}", value=self.image_uris[name])
            cdk.CfnOutput(self, f"Build{suffix}", value=self.to_json_string(variables))
        self.base_repository_arns: Sequence[str] = sorted(base_arns)
        """The repositories of base images that ask for a login."""
        if unpinned:
            # A clone without an account gets its templates all the same.
            cdk.Annotations.of(self).add_warning_v2(
                "compilegate:unpinned",
                f"bases without a digest: {', '.join(sorted(unpinned))}; nothing is built on them "
                "before: compilegate aws images --pin --missing",
            )
        self._build(self._role(project, foundation, folders), project, foundation, registry)

    def _role(
        self, project: Project, foundation: FoundationStack, folders: Sequence[str]
    ) -> iam.IRole:
        """Reads the folders, pulls the bases, pushes to the repositories."""
        arns, network = Arns.of(self), project.settings.network
        repositories = foundation.repository_arns(project.built_images)
        return scoped_role(
            self,
            "Role",
            trusted=service_principal(self, "codebuild"),
            description=f"Build the images of {project.settings.project}",
            statements=[
                # A project without workloads has no image, and IAM takes no empty list.
                *(
                    [
                        may("ReadFolders", "s3:GetObject", on=folders),
                        *pull_images([*repositories, *self.base_repository_arns]),
                        may("PushImages", *PUSHING, on=repositories),
                    ]
                    if folders
                    else []
                ),
                may(
                    "UseKey",
                    "kms:Decrypt",
                    "kms:DescribeKey",
                    "kms:GenerateDataKey",
                    on=[foundation.key.key_arn],
                ),
                may(
                    "WriteLogs",
                    "logs:CreateLogStream",
                    "logs:PutLogEvents",
                    on=[arns.log_group(f"{_log(project)}:log-stream:*")],
                    because="CodeBuild names the stream after the build",
                ),
                *(_join_vpc(arns, network.subnets) if network.vpc_id else []),
            ],
        )

    def _build(
        self, role: iam.IRole, project: Project, foundation: FoundationStack, registry: str
    ) -> None:
        names, settings, network = project.names, project.settings, project.settings.network
        logs = foundation.log_group(self, "Logs", _log(project))
        build = codebuild.CfnProject(
            self,
            "Project",
            name=names.build_project,
            description=f"Builds an image of {settings.project} unless it exists",
            service_role=role.role_arn,
            encryption_key=foundation.key.key_arn,
            # The folder is another one in each build, so the commands fetch it.
            source={"type": "NO_SOURCE", "buildSpec": json.dumps(SPECIFICATION)},
            artifacts={"type": "NO_ARTIFACTS"},
            environment={
                "type": "LINUX_CONTAINER",
                "computeType": f"BUILD_GENERAL1_{settings.images.build_machine.upper()}",
                "image": BUILD_IMAGE,
                "privilegedMode": True,
                "environmentVariables": [
                    {"name": "REGISTRY", "value": registry},
                    # With attestations an image index is pushed, and SageMaker wants an image.
                    {"name": "BUILDX_NO_DEFAULT_ATTESTATIONS", "value": "1"},
                ],
            },
            logs_config={"cloudWatchLogs": {"status": "ENABLED", "groupName": logs.log_group_name}},
            timeout_in_minutes=settings.images.build_timeout_minutes,
            vpc_config={
                "vpcId": network.vpc_id,
                "subnets": network.subnets,
                "securityGroupIds": network.security_groups,
            }
            if network.vpc_id
            else None,
        )
        acknowledge(
            build,
            "AwsSolutions-CB3",
            "`docker build` needs a privileged container; nothing else is run in it.",
        )


def _log(project: Project) -> str:
    """The log group of the builds."""
    return f"/aws/codebuild/{project.names.build_project}"


def _join_vpc(arns: Arns, subnets: Sequence[str]) -> list[Statement]:
    return [
        may(
            "JoinVpc",
            "ec2:CreateNetworkInterface",
            "ec2:DeleteNetworkInterface",
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
            on=[ANY],
            because=f"{NO_RESOURCE}, or its resource does not exist yet",
        ),
        may(
            "LendInterface",
            "ec2:CreateNetworkInterfacePermission",
            on=[arns.of_service("ec2", "network-interface/*")],
            when={
                "StringEquals": {"ec2:AuthorizedService": "codebuild.amazonaws.com"},
                "ArnEquals": {
                    "ec2:Subnet": [arns.of_service("ec2", f"subnet/{subnet}") for subnet in subnets]
                },
            },
            because="CodeBuild makes the interface when a build starts",
        ),
    ]
