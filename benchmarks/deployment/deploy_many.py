"""How long it takes to deploy many workloads, one stack after the other and eight at once.

    .venv/bin/python benchmarks/deployment/deploy_many.py --workloads 50 --concurrency 8

The pinned CDK CLI deploys to the tests' stand-in for AWS, on this machine. The stand-in makes a
stack in seconds, where AWS takes a minute or two; so this shows what the CLI and the templates
cost, and that concurrent deployments succeed, not what a deployment to AWS takes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.aws_server.client import running_server
from tests.infra.deployment.cdk_cli import Cdk
from tests.infra.deployment.project import Project


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=50)
    parser.add_argument("--concurrency", type=int, default=8)
    given = parser.parse_args()
    with running_server() as aws, tempfile.TemporaryDirectory() as folder:
        project = Project.make(Path(folder))
        declare(project, given.workloads)
        cdk = Cdk(project.path, aws)
        cdk.bootstrap()
        began = time.perf_counter()
        cdk.synth()
        made = time.perf_counter()
        cdk.deploy(given.concurrency)
        ended = time.perf_counter()
        stacks = aws.client("cloudformation").get_paginator("describe_stacks").paginate()
        complete = sum(
            stack["StackStatus"] == "CREATE_COMPLETE" and stack["StackName"].startswith("trial-")
            for page in stacks
            for stack in page["Stacks"]
        )
    print(
        f"{given.workloads} workloads, {complete} stacks complete: synth {made - began:.0f} s, "
        f"deployment {ended - made:.0f} s with {given.concurrency} at once"
    )


def declare(project: Project, workloads: int) -> None:
    """Copies of the tiny workload, each with a name, a group and a prefix of its own."""
    settings = project.path / "infra" / "settings.toml"
    settings.write_text(settings.read_text().replace('workloads = ["tiny"]\n', ""))
    text = project.workload.read_text()
    for number in range(1, workloads):
        copy = text.replace('name = "tiny"', f'name = "tiny-{number}"')
        copy = copy.replace("incoming/tiny/", f"incoming/tiny-{number}/")
        (project.path / "workloads" / f"tiny-{number}.toml").write_text(copy)


if __name__ == "__main__":
    main()
