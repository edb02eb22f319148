"""One synth for all tests of the stacks: four deployments, side by side in one account.

What costs seconds to import is imported where it is used: the quick tests collect this folder too.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infra.assembly import Assembly
from tests.made_once import made_once

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
NEIGHBOUR = """
project = "neighbour"
account = "123456789012"
region = "us-east-1"

[network]
vpc_id = "vpc-0123456789abcdef0"
subnets = ["subnet-0123456789abcdef0"]
security_groups = ["sg-0123456789abcdef0"]
isolation = true

[images]
build_machine = "large"

[approval]
trusted = ["arn:aws:iam::123456789012:role/model-owners"]

[storage]
retain = false

[github]
repository = "example/models"

[source]
account = "111111111111"
region = "us-east-1"
project = "walled"

[tags]
owner = "ml-platform"
"""
"""Another deployment: in a VPC, without notifications, gone when it is destroyed, and after a stage
in another account."""

WALLED = """
project = "walled"
account = "123456789012"
region = "us-east-1"
workloads = ["topics"]
readers = ["arn:aws:iam::222222222222:role/neighbour-ci-deploy", "o-abcdefghij"]

[network]
create = true
"""
"""A third, whose jobs are in a VPC that is made for them, and which a later stage may read."""
SHIPPED = {"project": "shipped", "account": "123456789012", "region": "us-east-1"}
"""A fourth: what this repository ships, under a name that is free here."""


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The stacks of `tests/infra/project` and its neighbours, checked by the CDK and cdk-nag."""
    return Assembly(made_once(tmp_path_factory, "synth", _synthesize) / "cdk.out")


def _synthesize(folder: Path) -> None:
    from aws_cdk import App, Validations  # noqa: PLC0415
    from cdk_nag import AwsSolutionsChecks  # noqa: PLC0415

    from compilegate.infra.app import build, context_of, environment_of  # noqa: PLC0415
    from compilegate.infra.project import read_project  # noqa: PLC0415

    for name, settings in (("neighbour", NEIGHBOUR), ("walled", WALLED)):
        (folder / name / "infra").mkdir(parents=True)
        for part in ("containers", "workloads"):
            (folder / name / part).symlink_to(HERE / "project" / part)
        (folder / name / "infra" / "settings.toml").write_text(settings)

    folders = (HERE / "project", folder / "neighbour", folder / "walled")
    projects = [read_project(each) for each in folders]
    shipped = read_project(PROJECT)
    settings = shipped.settings.model_copy(update=SHIPPED)
    named = [each for each in shipped.workloads if each.workload.name == "news-topics"]
    projects.append(replace(shipped, settings=settings, workloads=named))
    # `App()` does not read cdk.json; without its context the flags would be off.
    context = json.loads((PROJECT / "cdk.json").read_text())["context"]
    for project in projects:
        app = App(
            outdir=str(folder / "cdk.out" / project.settings.project),
            context={**context, **context_of(project)},
            analytics_reporting=False,
        )
        build(app, project, environment_of(project))
        Validations.of(app).add_plugins(AwsSolutionsChecks(app))
        app.synth()
