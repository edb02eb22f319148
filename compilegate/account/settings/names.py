"""The names that the CDK app gives and the AWS client looks for. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from compilegate.access.bootstrap import PROJECT_TAG
from compilegate.access.sharing import CI_DEPLOY
from compilegate.account.settings.declaration import Settings
from compilegate.workload import Workload


@dataclass(frozen=True)
class Names:
    """Every name that more than one room must know, made from the settings in one place."""

    settings: Settings

    @property
    def tags(self) -> dict[str, str]:
        """The tags of every resource and of every job, so that the bill can be split."""
        return {PROJECT_TAG: self.settings.project, **self.settings.tags}

    @property
    def foundation_stack(self) -> str:
        return f"{self.settings.project}-foundation"

    @property
    def network_stack(self) -> str:
        return f"{self.settings.project}-network"

    @property
    def images_stack(self) -> str:
        return f"{self.settings.project}-images"

    @property
    def ci_stack(self) -> str:
        return f"{self.settings.project}-ci"

    @property
    def ci_deploy_role(self) -> str:
        return f"{self.settings.project}{CI_DEPLOY}"

    @property
    def ci_plan_role(self) -> str:
        return f"{self.settings.project}-ci-plan"

    def workload_stack(self, workload: str) -> str:
        return f"{self.settings.project}-workload-{workload}"

    def endpoint_stack(self, workload: str) -> str:
        return f"{self.settings.project}-endpoint-{workload}"

    def pipeline(self, workload: str) -> str:
        return f"{self.settings.project}-{workload}"

    def model_package_group(self, workload: Workload) -> str:
        return f"{self.settings.project}-{workload.model_package_group}"

    def endpoint(self, workload: str) -> str:
        """The endpoint that answers with a workload's models."""
        return self.pipeline(workload)

    def bucket(self, account: str, region: str) -> str:
        """Both arguments may be CloudFormation tokens."""
        own = f"{self.settings.project}-{account}-{region}"
        return self.settings.storage.bucket or self.settings.names.bucket or own

    @property
    def source_bucket(self) -> str | None:
        """The bucket of the stage that models come from."""
        if (source := self.settings.source) is None:
            return None
        return source.bucket or f"{source.project}-{source.account}-{source.region}"

    @property
    def key_alias(self) -> str:
        return self.settings.names.key_alias or f"alias/{self.settings.project}"

    def repository(self, image: str) -> str:
        return f"{self.settings.names.repository_prefix or self.settings.project}/{image}"

    @property
    def build_project(self) -> str:
        """The CodeBuild project that builds every image folder."""
        return f"{self.settings.project}-images"

    def function(self, workload: str, kind: str) -> str:
        """A Lambda function of a workload: its `keeper`."""
        return f"{self.pipeline(workload)}-{kind}"

    @property
    def qualifier(self) -> str:
        """What `cdk bootstrap` puts into its names: at most ten letters and digits."""
        own = hashlib.sha256(self.settings.project.encode()).hexdigest()[:8]
        return self.settings.bootstrap.qualifier or f"cg{own}"

    @property
    def toolkit_stack(self) -> str:
        """The stack that `cdk bootstrap` makes."""
        return f"CDKToolkit-{self.settings.project}"

    @property
    def boundary(self) -> str | None:
        """The permissions boundary of every role; None where somebody else bootstrapped without."""
        bootstrap, own = self.settings.bootstrap, f"{self.settings.project}-boundary"
        return own if bootstrap.qualifier is None else bootstrap.boundary

    @property
    def schedule_group(self) -> str:
        return self.settings.names.schedule_group or self.settings.project

    def schedule(self, workload: str) -> str:
        return f"{self.settings.project}-{workload}"

    @property
    def path(self) -> str:
        """The path of roles and policies; `/` is IAM's own."""
        return self.settings.names.path or "/"

    @property
    def topic(self) -> str:
        given = self.settings.notifications.topic_arn or ""
        own = self.settings.names.topic or f"{self.settings.project}-notifications"
        return given.rpartition(":")[2] or own


def output_suffix(image: str) -> str:
    """An image folder as part of a stack output's name: `training-compiler`, `TrainingCompiler`."""
    return "".join(word.capitalize() for word in image.split("-"))
