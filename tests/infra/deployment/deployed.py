"""A project that the pinned command line of the CDK deploys to the stand-in for AWS."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from moto.events.models import EventPattern

from compilegate.account.settings import SETTINGS_FILE
from compilegate.account.settings.pins import write_pins
from compilegate.pipelines.images import image_folders
from tests.aws_server.client import REGION, AwsServer

REPOSITORY = Path(__file__).parents[3]
DATA = REPOSITORY / "tests" / "account_proof" / "project" / "workloads"
CLI = REPOSITORY / "node_modules" / ".bin" / "cdk"
ASSEMBLY = "cdk.out"
COMMAND = (sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')")
NO_QUESTION = ("--require-approval", "never")
ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_VALIDATION": "false",  # templates are validated by tests of their own
    "COMPILEGATE_POLL_SECONDS": "0",
    "DOCKER_HOST": "tcp://127.0.0.1:9",  # nothing answers there
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
}
"""Of every command that deploys to the stand-in."""
CALL = """
import importlib, json, sys
module, _, name = sys.argv[1].rpartition(".")
getattr(importlib.import_module(module), name)(json.loads(sys.argv[2]), None)
"""


@dataclass(frozen=True)
class Deployment:
    """The project's folder, the account, and the commands between them."""

    folder: Path
    aws: AwsServer

    @classmethod
    def make(cls, folder: Path, aws: AwsServer) -> Deployment:
        """Make the folder: this repository's images, and a small workload."""
        shutil.copytree(Path(__file__).with_name("project"), folder, dirs_exist_ok=True)
        for name in ("train.csv", "validation.csv"):
            shutil.copyfile(DATA / name, folder / "workloads" / name)
        for name in ("containers", "cdk.json"):
            (folder / name).symlink_to(REPOSITORY / name)
        bases = {image.base_name for image in image_folders(folder / "containers").values()}
        write_pins(folder / SETTINGS_FILE, dict.fromkeys(bases, f"sha256:{'0' * 64}"))
        return cls(folder, aws)

    # Commands

    def bootstrap(self) -> None:
        """Make what the CDK itself needs in the account."""
        given = self.run(sys.executable, "-m", "compilegate.infra.bootstrap")
        self.cdk("bootstrap", *given, app="")

    def synth(self) -> None:
        """Make the assembly that the other commands deploy: once, because it takes seconds."""
        shutil.rmtree(self.folder / ASSEMBLY, ignore_errors=True)
        program = f"{shlex.quote(sys.executable)} -m compilegate.infra.app"
        self.cdk("synth", "--quiet", "--output", ASSEMBLY, app=program)

    def deploy(self) -> None:
        """Deploy the assembly as `make deploy` does: the foundation and the images, then the
        builds and the data that pipelines train on by default, then the rest."""
        self.cdk("deploy", "*-images", *NO_QUESTION)
        self.run(*COMMAND, "aws", "images", "--build", "--wait")
        self.run(*COMMAND, "aws", "upload", "--all")
        self.cdk("deploy", "--all", *NO_QUESTION)

    def cdk(self, *arguments: str, app: str = ASSEMBLY) -> str:
        """Run a command of the CDK's; returns what it printed."""
        assert CLI.is_file(), f"{CLI} is missing: `make test` installs it"
        options = ("--app", app, "--no-notices", "--no-color")
        done = self.attempt(str(CLI), *arguments, *options)
        assert done.returncode == 0, f"cdk {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def run(self, *command: str) -> list[str]:
        """The words that a command printed, which must end well."""
        done = self.attempt(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()

    def attempt(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program that knows only the stand-in for AWS."""
        inherited = {
            name: value
            for name, value in self.aws.environment.items()
            # The CLI takes any variable CDK_NAME for its option --name.
            if not name.startswith("CDK")
        }
        environment = {
            **inherited,
            **ENVIRONMENT,
            # Node may have been installed into the virtual environment.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited["PATH"]]),
            # It remembers which account a key belongs to.
            "CDK_HOME": str(self.folder / ".cdk"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    # The account

    def stacks(self) -> dict[str, dict[str, Any]]:
        """Each stack by name."""
        found = self.aws.client("cloudformation").describe_stacks()["Stacks"]
        return {stack["StackName"]: stack for stack in found}

    def outputs(self, stack: str) -> dict[str, str]:
        """Of one stack, by name."""
        found = self.stacks()[stack].get("Outputs", [])
        return {item["OutputKey"]: item["OutputValue"] for item in found}

    def deliver(self, event: dict[str, Any], code: Path) -> None:
        """Call the functions whose rules match the event, as EventBridge would: each as it is
        deployed, with its archive from the CDK's bucket, which is unpacked below `code`, its
        handler and its environment."""
        events, functions = self.aws.client("events"), self.aws.client("lambda")
        arns = {
            target["Arn"]
            for rule in events.list_rules()["Rules"]
            if rule["State"] == "ENABLED"
            and rule.get("EventPattern")
            and EventPattern.load(rule["EventPattern"]).matches_event(event)
            for target in events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
        }
        assert arns
        for name in (arn.rpartition(":")[2] for arn in arns):
            if not (code / name).exists():
                self._unpack(name, code / name)
            found = functions.get_function_configuration(FunctionName=name)
            done = subprocess.run(
                [sys.executable, "-c", CALL, found["Handler"], json.dumps(event)],
                cwd=code / name,
                env={
                    **self.aws.environment,
                    "AWS_DEFAULT_REGION": REGION,
                    **found["Environment"]["Variables"],
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr

    def _unpack(self, function: str, folder: Path) -> None:
        project, _, rest = function.partition("-")
        stack = f"{project}-workload-{rest.rpartition('-')[0]}"
        made = self.aws.client("cloudformation").get_template(StackName=stack)["TemplateBody"]
        (code,) = [
            resource["Properties"]["Code"]
            for resource in made["Resources"].values()
            if resource["Type"] == "AWS::Lambda::Function"
        ]
        bucket = self.outputs(f"CDKToolkit-{project}")["BucketName"]
        archive = self.aws.client("s3").get_object(Bucket=bucket, Key=code["S3Key"])["Body"]
        with ZipFile(BytesIO(archive.read())) as files:
            files.extractall(folder)
