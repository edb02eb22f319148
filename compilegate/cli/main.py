"""The command group: names, one line of help each, and nothing that is slow to import."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem

from compilegate.cli.terminal.errors import disk_error, shown
from compilegate.cli.terminal.origin import ARGUMENTS
from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes

_EXIT_CODES = "\n".join(f"{code:>5}  {meaning}" for code, meaning in exit_codes.TABLE)


class LazyGroup(click.Group):
    """Knows its commands' names and short help; imports a command's module when it is used."""

    modules: ClassVar[dict[str, tuple[str, str]]] = {
        "init": ("compilegate.cli.init", "Begin a project, or add a workload to one."),
        "validate": ("compilegate.cli.validate", "Check a workload file, and do nothing else."),
        "check": (
            "compilegate.cli.check",
            "Say what in a script breaks a compiler or slows it down.",
        ),
        "advise": (
            "compilegate.cli.workload.advise",
            "Say whether compiling is worth it, before the first GPU hour.",
        ),
        "schema": (
            "compilegate.cli.schema",
            "Print the JSON schema of workload files, for editors.",
        ),
        "compile": ("compilegate.cli.compile", "Print a workload's SageMaker pipeline definition."),
        "policies": (
            "compilegate.cli.sagemaker.policies",
            "Print the roles of a workload, for Terraform and other tools.",
        ),
        "derive-images": (
            "compilegate.cli.workload.derive_images",
            "Build a program's requirements.txt into images.",
        ),
        "explain": (
            "compilegate.cli.pipeline.explain",
            "Say what each step of a definition would do on this machine.",
        ),
        "run": ("compilegate.cli.run", "Execute a workload or a definition on this machine."),
        "doctor": (
            "compilegate.cli.doctor",
            "Say what this machine has and lacks for each compiler.",
        ),
        "profile": (
            "compilegate.cli.workload.profile",
            "Say where the time of a training step goes.",
        ),
        "machine": (
            "compilegate.cli.workload.machine",
            "Describe an instance type, to rehearse jobs of it here.",
        ),
        "batch-size": ("compilegate.cli.batch_size", "Find the largest batch of an arm that fits."),
        "gate": ("compilegate.cli.gate", "Judge the evidence in a folder."),
        "executions": ("compilegate.cli.executions", "List executions, or show one."),
        "history": (
            "compilegate.cli.workload.history",
            "Show a workload over its executions, or all workloads.",
        ),
        "posture": (
            "compilegate.cli.workload.posture",
            "Say how far a workload has come with its compiler; set or reset it.",
        ),
        "plan": (
            "compilegate.cli.sagemaker.plan",
            "Show what a deployment would change and an execution cost.",
        ),
        "stage": ("compilegate.cli.sagemaker.stage", "Upload a workload's raw data to the bucket."),
        "submit": ("compilegate.cli.sagemaker.submit", "Start an execution on SageMaker."),
        "watch": (
            "compilegate.cli.sagemaker.watch",
            "Follow an execution on SageMaker to its verdict.",
        ),
        "stop": ("compilegate.cli.sagemaker.stop", "Stop an execution on SageMaker."),
        "images": (
            "compilegate.cli.sagemaker.images",
            "List the container images; build the missing ones.",
        ),
        "serve": ("compilegate.cli.workload.serve", "Serve a registered model on this machine."),
        "models": (
            "compilegate.cli.registry.models",
            "List registered models; approve or reject one.",
        ),
        "promote": (
            "compilegate.cli.registry.promote",
            "Bring an approved model from one stage to the next.",
        ),
        "completion": (
            "compilegate.cli.options.completion",
            "Print what makes a shell complete commands, workloads and IDs.",
        ),
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the command line as it was given, for the page of what it starts."""
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; this is the one place where errors are caught."""
        try:
            return super().invoke(ctx)
        except CompilegateError as error:
            raise shown(error) from error
        except OSError as error:
            if (full := disk_error(error)) is None:
                raise
            raise full from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        command: click.Command = importlib.import_module(self.modules[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, by name: importing each would take a second at every Tab."""
        found = [
            CompletionItem(name, help=text)
            for name, (_, text) in self.modules.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.modules.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"\b\nExit status:\n{_EXIT_CODES}",
)
@click.version_option(package_name="compilegate")
def main() -> None:
    """Train faster with a graph compiler; ship the result only when it is proven to be as good.

    A workload is one model that is trained again and again, declared in workloads/NAME.toml.
    It is compiled to a SageMaker pipeline definition that trains a baseline and compiled
    candidates, lets a quality gate compare them, and registers the winner. The same definition
    runs here, without an AWS account and without Docker:

    \b
      compilegate validate news-topics     check the file
      compilegate compile news-topics      print the SageMaker pipeline definition
      compilegate run news-topics          execute it here, and write a report
      compilegate models                   list the registered models

    On SageMaker, after `make deploy`:

    \b
      compilegate plan news-topics           what would change, and what would it cost?
      compilegate submit news-topics --wait  start it, and follow it to the verdict
    """
