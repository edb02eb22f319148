"""The names that the CDK app gives and the AWS client looks for. Pure."""

from __future__ import annotations

import hashlib

from compilegate.access.jobs import PROJECT_TAG
from compilegate.access.sharing import CI_DEPLOY
from compilegate.account.settings.declaration import Settings
from compilegate.workload import Workload


class Names:
    """Every name that more than one room must know, made from the settings in one place."""

    def __init__(self, settings: Settings) -> None:
        project, given = settings.project, settings.names
        self.settings = settings
        self.tags = {PROJECT_TAG: project, **settings.tags}
        """On every resource and every job, so that the bill can be split."""
        self.foundation_stack = f"{project}-foundation"
        self.network_stack = f"{project}-network"
        self.images_stack = f"{project}-images"
        self.ci_stack = f"{project}-ci"
        self.ci_deploy_role = f"{project}{CI_DEPLOY}"
        self.ci_plan_role = f"{project}-ci-plan"
        self.build_project = f"{project}-images"
        """The CodeBuild project that builds every image folder."""
        self.toolkit_stack = f"CDKToolkit-{project}"
        self.qualifier = settings.bootstrap.qualifier or (
            f"cg{hashlib.sha256(project.encode()).hexdigest()[:8]}"
        )
        """What `cdk bootstrap` puts into its names: at most ten letters and digits."""
        self.boundary = settings.bootstrap.boundary
        """The permissions boundary of every role; None where somebody else bootstrapped without."""
        if settings.bootstrap.qualifier is None:
            self.boundary = f"{project}-boundary"
        self.key_alias = given.key_alias or f"alias/{project}"
        self.schedule_group = given.schedule_group or project
        self.path = given.path or "/"
        """The path of roles and policies; `/` is IAM's own."""
        self.topic = given.topic or f"{project}-notifications"
        if settings.notifications.topic_arn is not None:
            self.topic = settings.notifications.topic_arn.rpartition(":")[2]

    def bucket(self, account: str, region: str) -> str:
        """Both arguments may be CloudFormation tokens."""
        own = f"{self.settings.project}-{account}-{region}"
        return self.settings.storage.bucket or self.settings.names.bucket or own

    @property
    def source_bucket(self) -> str | None:
        if (source := self.settings.source) is None:
            return None
        return source.bucket or f"{source.project}-{source.account}-{source.region}"

    @property
    def deployment_policies(self) -> tuple[str, str]:
        """What CloudFormation may do."""
        return f"{self.settings.project}-deployment", f"{self.settings.project}-deployment-access"

    @property
    def bootstrap_policy(self) -> str:
        """What bounds the CDK's own roles."""
        return f"{self.settings.project}-bootstrap"

    @property
    def given_roles(self) -> list[str]:
        """ARNs of roles that somebody else made for jobs, pipelines and functions."""
        return sorted({*self.settings.roles.model_dump(exclude_none=True).values()})

    def repository(self, image: str) -> str:
        return f"{self.settings.names.repository_prefix or self.settings.project}/{image}"

    def workload_stack(self, workload: str) -> str:
        return f"{self.settings.project}-workload-{workload}"

    def endpoint_stack(self, workload: str) -> str:
        return f"{self.settings.project}-endpoint-{workload}"

    def pipeline(self, workload: str) -> str:
        return f"{self.settings.project}-{workload}"

    def endpoint(self, workload: str) -> str:
        return self.pipeline(workload)

    def schedule(self, workload: str) -> str:
        return self.pipeline(workload)

    def function(self, workload: str, kind: str) -> str:
        """A Lambda function of a workload: its `keeper`."""
        return f"{self.pipeline(workload)}-{kind}"

    def model_package_group(self, workload: Workload) -> str:
        return f"{self.settings.project}-{workload.model_package_group}"


def output_suffix(image: str) -> str:
    """An image folder as part of a stack output's name: `training-compiler`, `TrainingCompiler`."""
    return "".join(word.capitalize() for word in image.split("-"))
