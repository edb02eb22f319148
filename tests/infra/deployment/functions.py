"""Delivers an event as EventBridge would: to the functions whose rules match it.

A function runs as deployed: its archive from the CDK's bucket, its handler, its environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from moto.events.models import EventPattern

from tests.aws_server.client import REGION, AwsServer
from tests.infra.deployment.deployed import Deployment

_PROGRAM = """
import importlib, json, sys
module, _, name = sys.argv[1].rpartition(".")
print(json.dumps(getattr(importlib.import_module(module), name)(json.loads(sys.argv[2]), None)))
"""


def deliver(deployment: Deployment, event: dict[str, Any], folder: Path, **more: str) -> None:
    """Call the functions that hear of the event; their code is unpacked in `folder`."""
    arns = _targets(deployment.aws, event)
    functions = deployment.aws.client("lambda").list_functions()["Functions"]
    called = [item for item in functions if item["FunctionArn"] in arns]
    assert called
    for function in called:
        call(deployment, function["FunctionName"], event, folder, **more)


def call(
    deployment: Deployment, name: str, event: dict[str, Any], folder: Path, **more: str
) -> dict[str, Any]:
    """Call one function; `more` is added to its environment."""
    function = deployment.aws.client("lambda").get_function_configuration(FunctionName=name)
    folder /= name
    if not folder.exists():
        folder.mkdir(parents=True)
        _unpack(deployment, name, folder)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, function["Handler"], json.dumps(event)],
        cwd=folder,
        env={
            **deployment.aws.environment,
            "AWS_DEFAULT_REGION": REGION,
            **function["Environment"]["Variables"],
            **more,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _targets(aws: AwsServer, event: dict[str, Any]) -> set[str]:
    """The targets of all rules that match."""
    client = aws.client("events")
    return {
        target["Arn"]
        for rule in client.list_rules()["Rules"]
        if rule["State"] == "ENABLED"
        and rule.get("EventPattern")
        and EventPattern.load(rule["EventPattern"]).matches_event(event)
        for target in client.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    }


def _unpack(deployment: Deployment, function: str, folder: Path) -> None:
    client = deployment.aws.client
    project, _, rest = function.partition("-")
    stack = f"{project}-workload-{rest.rpartition('-')[0]}"
    template = client("cloudformation").get_template(StackName=stack)["TemplateBody"]
    (code,) = [
        resource["Properties"]["Code"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
        and resource["Properties"]["FunctionName"] == function
    ]
    bucket = deployment.outputs(f"CDKToolkit-{project}")["BucketName"]
    archive = client("s3").get_object(Bucket=bucket, Key=code["S3Key"])["Body"].read()
    with ZipFile(BytesIO(archive)) as files:
        files.extractall(folder)
