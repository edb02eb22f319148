"""GitHub Actions: which of its jobs may assume which role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from compilegate.access import Arns, Statement
from compilegate.account.settings.declaration import GitHub
from compilegate.infra.ci.permissions import deploy_statements, plan_statements
from compilegate.infra.ci.promoting import Place
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.parts import scoped_role, stack_options
from compilegate.infra.project import Project

HOST = "token.actions.githubusercontent.com"
AUDIENCE = "sts.amazonaws.com"


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
        self._provider_arn = github.provider_arn or self._provider()
        arns, name = Arns.of(self), project.settings.project
        qualifier = str(self.synthesizer.bootstrap_qualifier)
        deploy = self._role(
            "DeployRole",
            subject=f"repo:{github.repository}:environment:{github.environment}",
            description=f"Jobs of the environment {github.environment}: deploy and submit",
            claims=_deploying_claims(github),
            hours=github.session_hours,
            statements=deploy_statements(
                arns=arns,
                project=name,
                qualifier=qualifier,
                bucket_arn=foundation.bucket_arn,
                key_arn=foundation.key.key_arn,
                repository_arns=foundation.repository_arns(list(project.images)),
                base_repository_arns=base_repository_arns,
                source=_source(project, arns),
            ),
        )
        plan = self._role(
            "PlanRole",
            subject=f"repo:{github.repository}:pull_request",
            description="Jobs of pull requests: see what would change",
            statements=plan_statements(arns=arns, project=name),
        )
        cdk.CfnOutput(self, "DeployRoleArn", value=deploy.role_arn)
        cdk.CfnOutput(self, "PlanRoleArn", value=plan.role_arn)

    def _provider(self) -> str:
        provider = iam.OidcProviderNative(
            self, "GitHub", url=f"https://{HOST}", client_ids=[AUDIENCE]
        )
        return provider.oidc_provider_arn

    def _role(
        self,
        id: str,
        *,
        subject: str,
        description: str,
        statements: Sequence[Statement],
        claims: Mapping[str, str] = MappingProxyType({}),
        hours: int = 1,
    ) -> iam.IRole:
        """A role for tokens issued for AWS (`aud`) to exactly these jobs (`sub`, and what else a
        token must claim)."""
        must = {"aud": AUDIENCE, "sub": subject, **claims}
        trusted = iam.FederatedPrincipal(
            self._provider_arn,
            {"StringEquals": {f"{HOST}:{claim}": value for claim, value in must.items()}},
            "sts:AssumeRoleWithWebIdentity",
        )
        return scoped_role(
            self,
            id,
            # pyrefly: ignore[bad-argument-type]  # the CDK names a parameter in two ways
            trusted=trusted,
            description=description,
            statements=statements,
            hours=hours,
        )


def _source(project: Project, arns: Arns) -> Place | None:
    """Where this stage's models come from."""
    source, bucket = project.settings.source, project.names.source_bucket
    if source is None or bucket is None:
        return None
    there = Arns(partition=arns.partition, region=source.region, account=source.account)
    return Place(arns=there, project=source.project, bucket_arn=there.bucket(bucket))


def _deploying_claims(github: GitHub) -> dict[str, str]:
    """The branch and the workflow that a deploying job must be of.

    Its subject names the environment alone, and a job of any branch can ask for an environment: a
    writer's own branch with a workflow of its own would do.
    """
    ref = f"refs/heads/{github.branch}"
    # GitHub signs the numbers of owner and repository in the subject only.
    repository = "/".join(part.partition("@")[0] for part in github.repository.split("/"))
    return {"ref": ref, "job_workflow_ref": f"{repository}/{github.workflow}@{ref}"}
