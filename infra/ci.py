"""GitHub Actions: which of its jobs may assume which role, and what the two roles may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from compilegate.access import Arns, Statement
from compilegate.access.jobs import ANY, AS_WAITING, JOB_NAMES, NO_RESOURCE, WRITE
from compilegate.access.layout import data_prefix, verdicts_prefix
from compilegate.access.policy import may, may_list, may_objects
from compilegate.access.sharing import BY_S3, SEE_IMAGE, SHARED_PREFIXES
from compilegate.account.settings.declaration import GitHub, Source
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import outputs, scoped_role, stack_options
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
        provider, settings = github.provider_arn, project.settings
        if provider is None:
            provider = iam.OidcProviderNative(
                self, "GitHub", url=f"https://{HOST}", client_ids=[AUDIENCE]
            ).oidc_provider_arn
        permissions = CiPermissions(
            arns=Arns.of(self),
            project=settings.project,
            qualifier=project.names.qualifier,
            bucket_arn=foundation.bucket_arn,
            key_arn=foundation.key.key_arn,
            repository_arns=foundation.repository_arns(project.images),
            base_repository_arns=base_repository_arns,
            serving_arns=foundation.serving_arns(each.workload for each in project.workloads),
            source=settings.source,
            source_bucket=project.names.source_bucket,
        )
        # A job's subject names the environment alone, and a job of any branch can ask for one: a
        # writer's own branch with a workflow of its own would do. Only the subject has the numbers
        # of owner and repository.
        ref, subject = f"refs/heads/{github.branch}", f"repo:{github.repository}"
        repository = "/".join(part.partition("@")[0] for part in github.repository.split("/"))
        deploy = scoped_role(
            self,
            "DeployRole",
            name=project.names.ci_deploy_role,
            trusted=_jobs(
                provider,
                sub=f"{subject}:environment:{github.environment}",
                ref=ref,
                job_workflow_ref=f"{repository}/{github.workflow}@{ref}",
            ),
            description=f"Jobs of the environment {github.environment}: deploy and submit",
            statements=permissions.deploy(),
            hours=github.session_hours,
        )
        plan = scoped_role(
            self,
            "PlanRole",
            name=project.names.ci_plan_role,
            trusted=_jobs(provider, sub=f"{subject}:pull_request"),
            description="Jobs of pull requests: see what would change",
            statements=permissions.plan(),
        )
        outputs(self, DeployRoleArn=deploy.role_arn, PlanRoleArn=plan.role_arn)


def _jobs(provider_arn: str, **claims: str) -> iam.IPrincipal:
    """Jobs with tokens for AWS (`aud`) that claim exactly this."""
    must = {"aud": AUDIENCE, **claims}
    # pyrefly: ignore[bad-return]  # the CDK names a parameter in two ways
    return iam.FederatedPrincipal(
        provider_arn,
        {"StringEquals": {f"{HOST}:{claim}": value for claim, value in must.items()}},
        "sts:AssumeRoleWithWebIdentity",
    )


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
        """Read what belongs to the project, for `cdk diff` and `compilegate aws plan`; what the
        month has cost is counted by the times of steps."""
        pipelines = self.arns.sagemaker(f"pipeline/{self.project}-*")
        stacks = self.arns.of_service("cloudformation", f"stack/{self.project}-*/*")
        return [
            may(
                "ReadStacks",
                "cloudformation:DescribeStacks",
                "cloudformation:GetTemplate",
                "cloudformation:ListStackResources",
                on=[stacks],
                because=OURS,
            ),
            may(
                "ReadPipelines",
                "sagemaker:DescribePipeline",
                "sagemaker:ListPipelineExecutions",
                on=[pipelines],
                because=OURS,
            ),
            may(
                "ReadExecutions",
                "sagemaker:DescribePipelineExecution",
                "sagemaker:ListPipelineExecutionSteps",
                "sagemaker:ListPipelineParametersForExecution",
                on=[f"{pipelines}/execution/*"],
                because=EXECUTIONS,
            ),
            may("ReadQuotas", "servicequotas:ListServiceQuotas", on=[ANY], because=NO_RESOURCE),
        ]

    def deploy(self) -> list[Statement]:
        """Plan; deploy through the CDK's roles; build images; upload data and submit; and bring
        models from the stage before. Approving a model is not among it."""
        promoting = [] if self.source is None else self._promoting(self.source)
        return [*self.plan(), *self._deploying(), *self._submitting(), *promoting]

    def _deploying(self) -> list[Statement]:
        """Through the CDK's roles, with the images: see which are built, start builds, and ask what
        the tags of bases stand for."""
        arns, named = self.arns, f"cdk-{self.qualifier}"
        here = f"role-{arns.account}-{arns.region}"
        roles = [arns.role(f"{named}-{purpose}-{here}") for purpose in DEPLOYING]
        version = arns.of_service("ssm", f"parameter/cdk-bootstrap/{self.qualifier}/version")
        builds = arns.of_service("codebuild", f"project/{self.project}-*")
        images, bases = self.repository_arns, self.base_repository_arns
        return [
            may("AssumeCdkRoles", "sts:AssumeRole", on=roles),
            may("SeeWhetherBootstrapped", "ssm:GetParameter", on=[version]),
            may(
                "BuildImages",
                "codebuild:BatchGetBuilds",
                "codebuild:BatchGetProjects",
                "codebuild:ListBuildsForProject",
                "codebuild:StartBuild",
                on=[builds],
                because=OURS,
            ),
            may("SeeImages", "ecr:DescribeImageScanFindings", "ecr:DescribeImages", on=images),
            # Registries that want no login need no right.
            *([may("SeeWhatBasesAre", "ecr:BatchGetImage", on=bases)] if bases else []),
        ]

    def _submitting(self) -> list[Statement]:
        """Upload raw data, start an execution, follow it to its verdict."""
        sagemaker, ours, bucket = self.arns.sagemaker, f"{self.project}-*", self.bucket_arn
        data, verdicts = data_prefix(), verdicts_prefix("*")
        pipeline, job = sagemaker(f"pipeline/{ours}"), sagemaker("processing-job/pipelines-*")
        model = sagemaker(f"model-package/{ours}/*")
        # A request to list streams names the group, with an empty stream at the end.
        logs = [
            self.arns.log_group(f"/aws/sagemaker/{kind}Jobs{stream}")
            for kind in ("Processing", "Training")
            for stream in ("", ":log-stream:", ":log-stream:pipelines-*")
        ]
        reading = ("logs:DescribeLogStreams", "logs:GetLogEvents")
        return [
            may("StartPipelines", "sagemaker:StartPipelineExecution", on=[pipeline], because=OURS),
            may("ReadJobs", "sagemaker:DescribeProcessingJob", on=[job], because=JOB_NAMES),
            may("ReadModels", "sagemaker:DescribeModelPackage", on=[model], because=OURS),
            may("ReadJobLogs", *reading, on=logs, because=JOB_NAMES),
            may_objects("ReadVerdicts", "s3:GetObject", bucket=bucket, below=[verdicts]),
            may_list("ListDataAndVerdicts", bucket, [data, verdicts]),
            may_objects("UploadData", *WRITE, bucket=bucket, below=[data]),
            # An upload in parts decrypts what its earlier parts were encrypted with.
            may("UseKey", "kms:Decrypt", "kms:GenerateDataKey", on=[self.key_arn], when=BY_S3),
        ]

    def _promoting(self, source: Source) -> list[Statement]:
        """Read an approved model and its verdict there, keep them here, and register it as
        waiting."""
        arns, group = self.arns, f"{self.project}-*"
        there = Arns(partition=arns.partition, region=source.region, account=source.account)
        packages = there.sagemaker(f"model-package/{source.project}-*/*")
        bucket, keys = there.bucket(str(self.source_bucket)), there.of_service("kms", "key/*")
        models = [prefix("*") for prefix in SHARED_PREFIXES]
        images = f"{source.repository_prefix or source.project}/*"
        # In this region, too, where it is replicated from another one.
        replica = Arns(partition=arns.partition, region=arns.region, account=source.account)
        repositories = {place.repository(images): None for place in (there, replica)}
        return [
            may("SeeModelsBefore", "sagemaker:DescribeModelPackage", on=[packages], because=OURS),
            may_objects("ReadModelsBefore", "s3:GetObject", bucket=bucket, below=models),
            may("DecryptModelsBefore", "kms:Decrypt", on=[keys], when=BY_S3, because=THEIRS),
            # CreateModelPackage looks up the model's image with the caller's permissions.
            may(
                "SeeImagesOfModels",
                *SEE_IMAGE,
                on=[*repositories, *self.serving_arns],
                because=THEIRS,
            ),
            # SageMaker reads what is registered with the caller's permissions, too.
            may_objects(
                "KeepPromoted", "s3:GetObject", *WRITE, bucket=self.bucket_arn, below=models
            ),
            may(
                "FindPromoted",
                "sagemaker:ListModelPackageGroups",
                "sagemaker:ListModelPackages",
                on=[ANY],
                because=NO_RESOURCE,
            ),
            may(
                "RegisterPromoted",
                "sagemaker:CreateModelPackage",
                on=[arns.sagemaker(f"model-package/{group}/*")],
                when=AS_WAITING,
                because=OURS,
            ),
            may(
                "RegisterInGroups",
                "sagemaker:CreateModelPackage",
                on=[arns.sagemaker(f"model-package-group/{group}")],
                because=OURS,
            ),
        ]
