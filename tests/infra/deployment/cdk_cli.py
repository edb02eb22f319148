"""The CDK's own command line, the pinned one, as a process that knows only the stand-in for AWS."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.aws_server.client import REGION, AwsServer

REPOSITORY = Path(__file__).parents[3]
CLI = REPOSITORY / "node_modules" / ".bin" / "cdk"
ASSEMBLY = "cdk.out"
COMMAND = (sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')")


class CdkError(Exception):
    """A command failed. The message has what it printed last."""


@dataclass(frozen=True)
class Cdk:
    """Commands in one project's folder."""

    project: Path
    aws: AwsServer

    def bootstrap(self) -> None:
        """Make what the CDK itself needs in the account."""
        made = subprocess.run(
            [sys.executable, "-m", "compilegate.infra.bootstrap_policies"],
            cwd=self.project,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        self._run("bootstrap", *made.stdout.split())

    def synth(self) -> None:
        """Make the assembly that the other commands deploy: once, because it takes seconds."""
        shutil.rmtree(self.project / ASSEMBLY, ignore_errors=True)
        self._run(
            "synth",
            "--quiet",
            "--output",
            ASSEMBLY,
            app=f"{shlex.quote(sys.executable)} -m compilegate.infra.app",
        )

    def deploy(self, concurrency: int = 1) -> str:
        """Deploy the assembly as `make deploy` does: the foundation and the images, then the
        builds and the data that pipelines train on by default, then the rest, so many stacks at
        once. Returns what the last command printed."""
        unasked = ("--require-approval", "never")
        self._run("deploy", "*-images", *unasked, app=ASSEMBLY)
        for command in (("images", "--build", "--wait"), ("upload", "--all")):
            subprocess.run(
                [*COMMAND, "aws", *command],
                cwd=self.project,
                env={**self._environment(), "COMPILEGATE_POLL_SECONDS": "0"},
                check=True,
                capture_output=True,
            )
        options = (*unasked, "--concurrency", str(concurrency))
        return self._run("deploy", "--all", *options, app=ASSEMBLY)

    def diff(self) -> str:
        """How the assembly differs from what is deployed."""
        # By the templates: moto's change sets take every resource for a new one.
        return self._run("diff", "--method", "template", app=ASSEMBLY)

    def take_in(self, stack: str, identifiers: Path) -> None:
        """Import into one stack what the file identifies."""
        self._run("import", stack, "--resource-mapping", str(identifiers), app=ASSEMBLY)

    def destroy(self) -> None:
        """Destroy every stack of the assembly."""
        self._run("destroy", "--all", "--force", app=ASSEMBLY)

    def _run(self, *arguments: str, app: str = "") -> str:
        assert CLI.is_file(), f"{CLI} is missing: `make test` installs it"
        done = subprocess.run(
            [str(CLI), *arguments, "--app", app, "--no-notices", "--no-color"],
            cwd=self.project,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        printed = done.stdout + done.stderr
        if done.returncode != 0:
            raise CdkError(f"cdk {' '.join(arguments)} ended with {done.returncode}: {printed}")
        return printed

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in self.aws.environment.items()
            # The CLI takes any variable CDK_NAME for its option --name.
            if not name.startswith("CDK")
        }
        return {
            **inherited,
            # Node may have been installed into the virtual environment.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), inherited["PATH"]]),
            "AWS_DEFAULT_REGION": REGION,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            # It remembers which account a key belongs to.
            "CDK_HOME": str(self.project / ".cdk"),
            # Templates are validated by tests of their own.
            "CDK_VALIDATION": "false",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
