"""GitHub Actions: which of its jobs may assume which role, and what the two roles may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from compilegate.access import Arns, Statement
from compilegate.access.jobs import ANY, JOB_NAMES, MANY_OBJECTS, NO_RESOURCE
from compilegate.access.layout import data_prefix, verdicts_prefix
from compilegate.access.sharing import BY_S3, SEE_IMAGE, SHARED_PREFIXES
from compilegate.account.named import repository_arns, serving_folders, serving_repositories
from compilegate.account.settings.declaration import GitHub, Source
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import scoped_role, stack_options
from compilegate.infra.project import Project

HOST = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"
DEPLOYING = ("deploy", "file-publishing")
"""The roles that `cdk bootstrap` made, by their purpose. Not the one that looks things up, which
reads the whole account: the app looks nothing up, and `cdk diff` goes on with the role's own."""
OURS = "These belong to the project: workloads come and go, and share its prefix"
EXECUTIONS = "SageMaker names executions when they start"
THEIRS = "The settings name the stage before, and not each of its keys and repositories"


class CiStack(cdk.Stack):
    """GitHub's identity provider; one role that deploys and submits, one that only reads."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        github: GitHub,
        foundation: FoundationStack,
        base_repository_arns: Sequence[str],
        env: cdk.Environment,
    ) -> None:
        super().__init__(
            scope, id, **stack_options(project, env, "Compilegate: what its CI may do")
        )
        provider, settings = github.provider_arn or self._provider(), project.settings
        may = CiPermissions(
            arns=Arns.of(self),
            project=settings.project,
            qualifier=str(self.synthesizer.bootstrap_qualifier),
            bucket_arn=foundation.bucket_arn,
            key_arn=foundation.key.key_arn,
            repository_arns=foundation.repository_arns(list(project.images)),
            base_repository_arns=base_repository_arns,
            serving_arns=_serving(project, foundation, self),
            source=settings.source,
            source_bucket=project.names.source_bucket,
        )
        repository = f"repo:{github.repository}"
        deploy = scoped_role(
            self,
            "DeployRole",
            name=project.names.ci_deploy_role,
            trusted=_jobs(
                provider,
                sub=f"{repository}:environment:{github.environment}",
                **_deploying_claims(github),
            ),
            description=f"Jobs of the environment {github.environment}: deploy and submit",
            statements=may.deploy(),
            hours=github.session_hours,
        )
        plan = scoped_role(
            self,
            "PlanRole",
            name=project.names.ci_plan_role,
            trusted=_jobs(provider, sub=f"{repository}:pull_request"),
            description="Jobs of pull requests: see what would change",
            statements=may.plan(),
        )
        cdk.CfnOutput(self, "DeployRoleArn", value=deploy.role_arn)
        cdk.CfnOutput(self, "PlanRoleArn", value=plan.role_arn)

    def _provider(self) -> str:
        provider = iam.OidcProviderNative(
            self, "GitHub", url=f"https://{HOST}", client_ids=[AUDIENCE]
        )
        return provider.oidc_provider_arn


def _jobs(provider_arn: str, **claims: str) -> iam.IPrincipal:
    """Jobs with tokens for AWS (`aud`) that claim exactly this."""
    must = {"aud": AUDIENCE, **claims}
    # pyrefly: ignore[bad-return]  # the CDK names a parameter in two ways
    return iam.FederatedPrincipal(
        provider_arn,
        {"StringEquals": {f"{HOST}:{claim}": value for claim, value in must.items()}},
        "sts:AssumeRoleWithWebIdentity",
    )


def _deploying_claims(github: GitHub) -> dict[str, str]:
    """The branch and the workflow that a deploying job must be of.

    Its subject names the environment alone, and a job of any branch can ask for an environment: a
    writer's own branch with a workflow of its own would do.
    """
    ref = f"refs/heads/{github.branch}"
    # GitHub signs the numbers of owner and repository in the subject only.
    repository = "/".join(part.partition("@")[0] for part in github.repository.split("/"))
    return {"ref": ref, "job_workflow_ref": f"{repository}/{github.workflow}@{ref}"}


def _serving(project: Project, foundation: FoundationStack, stack: cdk.Stack) -> list[str]:
    """The repositories of the images that this project's models are served in."""
    workloads = [each.workload for each in project.workloads]
    folders = {folder for each in workloads for folder in serving_folders(each)}
    of_aws = {found for each in workloads for found in serving_repositories(each, stack.region)}
    own = foundation.repository_arns(sorted(folders))
    return [*own, *sorted(repository_arns(Arns.of(stack), of_aws))]


@dataclass(frozen=True, kw_only=True)
class CiPermissions:
    """What the two roles may do. ARNs in, statements out."""

    arns: Arns
    project: str
    qualifier: str
    bucket_arn: str
    key_arn: str
    repository_arns: Sequence[str]
    base_repository_arns: Sequence[str]
    serving_arns: Sequence[str]
    source: Source | None
    """The stage that models come from."""
    source_bucket: str | None

    def plan(self) -> list[Statement]:
        """Read what belongs to the project, for `cdk diff` and `compilegate aws plan`."""
        pipelines = self.arns.sagemaker(f"pipeline/{self.project}-*")
        stacks = self.arns.of_service("cloudformation", f"stack/{self.project}-*/*")
        return [
            _may(
                "ReadStacks",
                "cloudformation:DescribeStacks",
                "cloudformation:GetTemplate",
                "cloudformation:ListStackResources",
                on=[stacks],
                because=OURS,
            ),
            _may(
                "ReadPipelines",
                "sagemaker:DescribePipeline",
                "sagemaker:ListPipelineExecutions",
                on=[pipelines],
                because=OURS,
            ),
            # What the month has cost is counted by the times of steps.
            _may(
                "ReadExecutions",
                "sagemaker:DescribePipelineExecution",
                "sagemaker:ListPipelineExecutionSteps",
                "sagemaker:ListPipelineParametersForExecution",
                on=[f"{pipelines}/execution/*"],
                because=EXECUTIONS,
            ),
            _may("ReadQuotas", "servicequotas:ListServiceQuotas", on=[ANY], because=NO_RESOURCE),
        ]

    def deploy(self) -> list[Statement]:
        """Plan; deploy through the CDK's roles; build images; upload data and submit; and bring
        models from the stage before. Approving a model is not among it."""
        promoting = self._promoting(self.source) if self.source is not None else []
        return [*self.plan(), *self._deploying(), *self._submitting(), *promoting]

    def _deploying(self) -> list[Statement]:
        """Through the CDK's roles, with the images: see which are built, start builds, and ask what
        the tags of bases stand for."""
        arns, named = self.arns, f"cdk-{self.qualifier}"
        roles = [
            arns.role(f"{named}-{purpose}-role-{arns.account}-{arns.region}")
            for purpose in DEPLOYING
        ]
        version = arns.of_service("ssm", f"parameter/cdk-bootstrap/{self.qualifier}/version")
        bases = _may("SeeWhatBasesAre", "ecr:BatchGetImage", on=self.base_repository_arns)
        return [
            _may("AssumeCdkRoles", "sts:AssumeRole", on=roles),
            _may("SeeWhetherBootstrapped", "ssm:GetParameter", on=[version]),
            _may(
                "BuildImages",
                "codebuild:BatchGetBuilds",
                "codebuild:BatchGetProjects",
                "codebuild:ListBuildsForProject",
                "codebuild:StartBuild",
                on=[arns.of_service("codebuild", f"project/{self.project}-*")],
                because=OURS,
            ),
            _may(
                "SeeImages",
                "ecr:DescribeImageScanFindings",
                "ecr:DescribeImages",
                on=self.repository_arns,
            ),
            # Registries that want no login need no right.
            *([bases] if self.base_repository_arns else []),
        ]

    def _submitting(self) -> list[Statement]:
        """Upload raw data, start an execution, follow it to its verdict."""
        sagemaker, ours = self.arns.sagemaker, f"{self.project}-*"
        data, verdicts = f"{data_prefix()}*", f"{verdicts_prefix('*')}*"
        job, model = sagemaker("processing-job/pipelines-*"), sagemaker(f"model-package/{ours}/*")
        # A request to list streams names the group, with an empty stream at the end.
        logs = [
            self.arns.log_group(f"/aws/sagemaker/{kind}Jobs{stream}")
            for kind in ("Processing", "Training")
            for stream in ("", ":log-stream:", ":log-stream:pipelines-*")
        ]
        return [
            _may(
                "StartPipelines",
                "sagemaker:StartPipelineExecution",
                on=[sagemaker(f"pipeline/{ours}")],
                because=OURS,
            ),
            _may("ReadJobs", "sagemaker:DescribeProcessingJob", on=[job], because=JOB_NAMES),
            _may("ReadModels", "sagemaker:DescribeModelPackage", on=[model], because=OURS),
            _may(
                "ReadJobLogs",
                "logs:DescribeLogStreams",
                "logs:GetLogEvents",
                on=logs,
                because=JOB_NAMES,
            ),
            _may(
                "ReadVerdicts",
                "s3:GetObject",
                on=[f"{self.bucket_arn}/{verdicts}"],
                because=MANY_OBJECTS,
            ),
            _may(
                "ListDataAndVerdicts",
                "s3:ListBucket",
                on=[self.bucket_arn],
                when={"StringLike": {"s3:prefix": [data, verdicts]}},
            ),
            self._write("UploadData", [data]),
            # An upload in parts decrypts what its earlier parts were encrypted with.
            _may("UseKey", "kms:Decrypt", "kms:GenerateDataKey", on=[self.key_arn], when=BY_S3),
        ]

    def _promoting(self, source: Source) -> list[Statement]:
        """Read an approved model and its verdict there, keep them here, and register it as
        waiting."""
        arns, group = self.arns, f"{self.project}-*"
        there = Arns(partition=arns.partition, region=source.region, account=source.account)
        models = [f"{prefix('*')}*" for prefix in SHARED_PREFIXES]
        images = f"{source.repository_prefix or source.project}/*"
        # In this region, too, where it is replicated from another one.
        replica = Arns(partition=arns.partition, region=arns.region, account=source.account)
        repositories = {place.repository(images): None for place in (there, replica)}
        return [
            _may(
                "SeeModelsBefore",
                "sagemaker:DescribeModelPackage",
                on=[there.sagemaker(f"model-package/{source.project}-*/*")],
                because=OURS,
            ),
            _may(
                "ReadModelsBefore",
                "s3:GetObject",
                on=[f"{there.bucket(str(self.source_bucket))}/{prefix}" for prefix in models],
                because=MANY_OBJECTS,
            ),
            _may(
                "DecryptModelsBefore",
                "kms:Decrypt",
                on=[there.of_service("kms", "key/*")],
                when=BY_S3,
                because=THEIRS,
            ),
            # CreateModelPackage looks up the model's image with the caller's permissions.
            _may(
                "SeeImagesOfModels",
                *SEE_IMAGE,
                on=[*repositories, *self.serving_arns],
                because=THEIRS,
            ),
            # SageMaker reads what is registered with the caller's permissions, too.
            self._write("KeepPromoted", models, "s3:GetObject"),
            _may(
                "FindPromoted",
                "sagemaker:ListModelPackageGroups",
                "sagemaker:ListModelPackages",
                on=[ANY],
                because=NO_RESOURCE,
            ),
            _may(
                "RegisterPromoted",
                "sagemaker:CreateModelPackage",
                on=[arns.sagemaker(f"model-package/{group}/*")],
                when={"StringEquals": {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}},
                because=OURS,
            ),
            _may(
                "RegisterInGroups",
                "sagemaker:CreateModelPackage",
                on=[arns.sagemaker(f"model-package-group/{group}")],
                because=OURS,
            ),
        ]

    def _write(self, sid: str, patterns: Sequence[str], *more: str) -> Statement:
        return _may(
            sid,
            *more,
            "s3:AbortMultipartUpload",
            "s3:PutObject",
            on=[f"{self.bucket_arn}/{pattern}" for pattern in patterns],
            because=MANY_OBJECTS,
        )


def _may(
    sid: str,
    *actions: str,
    on: Sequence[str],
    when: Mapping[str, Mapping[str, Any]] | None = None,
    because: str | None = None,
) -> Statement:
    return Statement(sid=sid, actions=actions, resources=on, conditions=when or {}, because=because)
