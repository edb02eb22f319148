"""The CDK app: reads what is declared, and makes the stacks. Run by the CDK CLI (`cdk.json`)."""

from __future__ import annotations

import os
import sys

import aws_cdk as cdk

from infra.foundation import FoundationStack
from infra.project import Project, read_project
from pipelines.settings import SettingsError
from pipelines.workload import WorkloadError

BAD_INPUT = 2
"""Exit code, as of the command line."""


def build(app: cdk.App, project: Project, environment: cdk.Environment) -> None:
    """Make every stack of the project in the app."""
    FoundationStack(app, project.names.foundation_stack, project=project, env=environment)


def main() -> None:
    try:
        project = read_project()
    except (SettingsError, WorkloadError) as error:
        print("\n".join(error.problems), file=sys.stderr)
        sys.exit(BAD_INPUT)
    app = cdk.App()
    build(app, project, environment_of(project))
    app.synth()


def environment_of(project: Project) -> cdk.Environment:
    """The account and region of the settings, else those of the credentials."""
    return cdk.Environment(
        account=project.settings.account or os.environ.get("CDK_DEFAULT_ACCOUNT"),
        region=project.settings.region or os.environ.get("CDK_DEFAULT_REGION"),
    )


if __name__ == "__main__":
    main()
