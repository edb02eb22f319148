"""How long it takes to deploy many workloads, one stack after the other and eight at once.

    .venv/bin/python benchmarks/deployment/deploy_many.py --workloads 50 --concurrency 8

The pinned CDK CLI deploys to the tests' stand-in for AWS, on this machine. The stand-in makes a
stack in seconds, where AWS takes a minute or two; so this shows what the CLI and the templates
cost, and that concurrent deployments succeed, not what a deployment to AWS takes. It also says how
near the largest template comes to the limits of CloudFormation, IAM and Lambda, and how much of an
account's quotas all of them take.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.aws_server.client import running_server
from tests.infra.deployment.deployed import ASSEMBLY, Deployment

QUOTAS = {
    "AWS::Events::Rule": ("EventBridge: rules of one event bus", 300),
    "AWS::IAM::Role": ("IAM: roles of an account", 1_000),
    "AWS::CloudFormation::Stack": ("CloudFormation: stacks", 2_000),
    "AWS::SageMaker::Pipeline": ("SageMaker: pipelines", 500),
    "AWS::CloudWatch::Alarm": ("CloudWatch: alarms of a region", 5_000),
}
"""What a new account has of the types of which every workload takes some."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=50)
    parser.add_argument("--concurrency", type=int, default=8)
    given = parser.parse_args()
    with running_server() as aws, tempfile.TemporaryDirectory() as folder:
        deployment = Deployment.make(Path(folder), aws)
        declare(deployment.folder / "workloads", given.workloads)
        deployment.bootstrap()
        began = time.perf_counter()
        deployment.synth()
        made = time.perf_counter()
        deployment.deploy(given.concurrency)
        ended = time.perf_counter()
        figures = list(against_limits(deployment.folder / ASSEMBLY))
        stacks = aws.client("cloudformation").get_paginator("describe_stacks").paginate()
        complete = sum(
            stack["StackStatus"] == "CREATE_COMPLETE" and stack["StackName"].startswith("trial-")
            for page in stacks
            for stack in page["Stacks"]
        )
    print(
        f"{given.workloads} workloads, {complete} stacks complete: synth {made - began:.0f} s, "
        f"deployment {ended - made:.0f} s with {given.concurrency} at once, "
        f"CPU time {sum(os.times()[:4]):.0f} s"
    )
    print(*figures, sep="\n")


PER_TEMPLATE = {
    "bytes of a template": 1_048_576,
    "resources of a stack": 500,
    "outputs of a stack": 200,
    "characters of a role's inline policies": 10_240,
    "characters of a role's trust policy": 2_048,
    "characters of a function's environment": 4_096,
}
"""Limits that hold for each, and that cannot be raised."""


def against_limits(assembly: Path) -> Iterator[str]:
    """A line for each limit: the most that any template has, and what all of them have."""
    most: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for path in assembly.glob("*.template.json"):
        text = path.read_text(encoding="utf-8")
        template = json.loads(text)
        resources = template["Resources"]
        total.update(resource["Type"] for resource in resources.values())
        total["AWS::CloudFormation::Stack"] += 1
        for name, value in sizes(template, len(text.encode())):
            most[name] = max(most[name], value)
    for name, limit in PER_TEMPLATE.items():
        yield f"{name}: at most {most[name]:,} of {limit:,}"
    for type, (name, default) in QUOTAS.items():
        yield f"{name}: {total[type]:,} of {default:,}"


def sizes(template: dict[str, Any], size: int) -> Iterator[tuple[str, int]]:
    """What of one template is limited. Policies count as they are written: CloudFormation puts
    ARNs in place of references, which are about as long."""
    yield "bytes of a template", size
    yield "resources of a stack", len(template["Resources"])
    yield "outputs of a stack", len(template.get("Outputs", {}))
    policies: Counter[str] = Counter()
    for id, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::IAM::Role":
            trust = properties["AssumeRolePolicyDocument"]
            yield "characters of a role's trust policy", written(trust)
            policies[id] += sum(
                written(each["PolicyDocument"]) for each in properties.get("Policies", [])
            )
        elif resource["Type"] == "AWS::IAM::Policy":
            for role in properties["Roles"]:
                policies[str(role)] += written(properties["PolicyDocument"])
        elif resource["Type"] == "AWS::Lambda::Function":
            variables = properties.get("Environment", {}).get("Variables", {})
            yield "characters of a function's environment", written(variables)
    for value in policies.values():
        yield "characters of a role's inline policies", value


def written(document: Any) -> int:
    return len(json.dumps(document, separators=(",", ":")))


def declare(folder: Path, workloads: int) -> None:
    """Copies of the tiny workload, each with a name, a group and a prefix of its own."""
    text = (folder / "tiny.toml").read_text()
    for number in range(1, workloads):
        copy = text.replace('name = "tiny"', f'name = "tiny-{number}"')
        copy = copy.replace("incoming/tiny/", f"incoming/tiny-{number}/")
        (folder / f"tiny-{number}.toml").write_text(copy)


if __name__ == "__main__":
    main()
