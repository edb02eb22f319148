"""The commands that people type, run in the folder that is deployed; what they print is kept."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compilegate.errors import CompilegateError
from compilegate.infra.proving.claims import Claim

LAST_LINES = 12
APP = f"{shlex.quote(sys.executable)} -m compilegate.infra.app"
ASSEMBLY = "cdk.out"
AT_ONCE = "4"
"""Stacks that are deployed at the same time."""


class NotProvedError(CompilegateError):
    """A claim did not hold, or could not be looked at. The message says what was seen."""


class CommandError(NotProvedError):
    """A command failed. The message has the last that it printed."""


@dataclass(frozen=True)
class Commands:
    """They run in one folder. `cdk` is the pinned CLI; `log` gets all that they print."""

    folder: Path
    cdk: Path
    log: Path

    def begin(self, claim: Claim) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n=== {claim.key}: {claim.says}\n")

    def bootstrap(self) -> None:
        """As `make bootstrap`."""
        arguments = self.module("compilegate.infra.bootstrap").split()
        self.run_cdk("bootstrap", *arguments)

    def deploy(self, images: str) -> str:
        """As `make deploy`: the foundation and the images, then the builds and the data that
        pipelines train on by default, then the rest."""
        self.compilegate("aws", "images", "--pin", "--missing")
        self.run_cdk("synth", "--quiet", "--output", ASSEMBLY)
        unasked = ("--require-approval", "never")
        self.run_cdk("deploy", images, *unasked, app=ASSEMBLY)
        self.compilegate("aws", "images", "--build", "--wait")
        self.compilegate("aws", "upload", "--all")
        return self.run_cdk("deploy", "--all", *unasked, "--concurrency", AT_ONCE, app=ASSEMBLY)

    def destroy(self) -> str:
        """As `make destroy`."""
        return self.run_cdk("destroy", "--all", "--force")

    def module(self, name: str, *arguments: str) -> str:
        """One of the project's programs; returns what it printed."""
        return self.run(sys.executable, "-m", name, *arguments)

    def compilegate(self, *arguments: str) -> str:
        return self.run(str(Path(sys.executable).parent / "compilegate"), *arguments)

    def run_cdk(self, *arguments: str, app: str = APP) -> str:
        return self.run(str(self.cdk), *arguments, "--app", app, "--no-notices", "--no-color")

    def run(self, *command: str) -> str:
        """Run it to its end; returns what it printed. Raises CommandError."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        printed = done.stdout + done.stderr
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{printed}")
        if done.returncode != 0:
            last = "\n".join(printed.strip().splitlines()[-LAST_LINES:])
            name = " ".join([Path(command[0]).name, *command[1:3]])
            raise CommandError(f"{name} ended with {done.returncode}: {last}")
        return printed
