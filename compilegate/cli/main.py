"""The command: names, one line of help each, and the one place where errors are caught.

Nothing here is slow to import, so that `--help` and the Tab key do not wait.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from compilegate.cli.options import FOLDER, project_of
from compilegate.cli.printing import exit_for
from compilegate.cli.provenance import ARGUMENTS
from compilegate.errors import CompilegateError
from compilegate.execution import exit_codes

_ROOT_OPTIONS = {"--project": True, "--home": True, "--aws": False}
"""The options of the root, which may stand behind the command too, and whether each has a value."""
ABOUT_AWS = ("aws", "doctor", "executions", "models", "posture", "profile")
"""The commands that `--aws` turns to the account."""


class LazyGroup(click.Group):
    """Imports a command's module when it is used. `modules` has, by command, `MODULE:NAME` in this
    package (NAME is `command` by default) and a line of help."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        module, _, name = self.modules[cmd_name][0].partition(":")
        found = importlib.import_module(f"compilegate.cli.{module}")
        return cast("click.Command", getattr(found, name or "command"))

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


class _Root(LazyGroup):
    """The whole command: the one place where errors are caught."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the command line as it was given, for the page of what it starts."""
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, _root_options_first(args))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "compile":  # the name of `pipeline compile` that other tools use
            return pipeline.get_command(ctx, cmd_name)
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (CompilegateError, OSError) as error:
            exit_for(error)
            raise


def _root_options_first(args: list[str]) -> list[str]:
    """The command line with the root's options before the command; `--` ends them."""
    end = args.index("--") if "--" in args else len(args)
    first: list[str] = []
    rest: list[str] = []
    words = args[:end]
    while words:
        name, equals, _ = words[0].partition("=")
        count = 2 if _ROOT_OPTIONS.get(name) and not equals else 1
        (first if name in _ROOT_OPTIONS else rest).extend(words[:count])
        words = words[count:]
    return [*first, *rest, *args[end:]]


@click.group(
    cls=_Root,
    modules={
        "init": ("init", "Begin a project, or add a workload to one."),
        "validate": ("validate", "Check a workload file, and do nothing else."),
        "check": ("check", "Say what in a script breaks a compiler or slows it down."),
        "advise": ("advise", "Say whether compiling is worth it, before the first hour."),
        "doctor": ("doctor", "Say what a machine has and lacks for each compiler."),
        "profile": ("profile", "Say where the time of a training step goes."),
        "run": ("run", "Execute a workload on this machine."),
        "executions": ("executions", "List executions, or show one, or a workload's."),
        "gate": ("gate", "Judge the evidence in a folder."),
        "models": ("main:models", "List registered models; approve, reject, serve one."),
        "posture": ("posture", "Say how far a workload has come; set or reset it."),
        "pipeline": ("main:pipeline", "Compile, explain and run pipeline definitions."),
        "aws": ("main:aws", "Plan, start and follow executions on SageMaker."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\n".join(
        ["\b", "Exit status:", *(f"{code:>5}  {meaning}" for code, meaning in exit_codes.TABLE)]
    ),
)
@click.version_option(package_name="compilegate")
@click.option(
    "--project",
    type=FOLDER,
    default=".",
    show_default=True,
    help="Folder with workloads/, and perhaps containers/ and infra/settings.toml.",
)
@click.option(
    "--home",
    type=FOLDER,
    envvar="COMPILEGATE_HOME",
    show_envvar=True,
    help="Folder of executions, registry and step cache; by default PROJECT/.compilegate.",
)
@click.option(
    "--aws",
    "use_account",
    is_flag=True,
    help=f"The account that infra/settings.toml names, instead of this machine. For "
    f"{', '.join(name for name in ABOUT_AWS if name != 'aws')}.",
)
@click.pass_context
def main(context: click.Context, project: Path, use_account: bool, **_: object) -> None:
    """Train faster with a graph compiler; ship the result only when it is proven to be as good.

    A workload is one model that is trained again and again, declared in workloads/NAME.toml.
    It is compiled to a SageMaker pipeline definition that trains a baseline and compiled
    candidates, lets a quality gate compare them, and registers the winner. The same definition
    runs here, without an AWS account and without Docker:

    \b
      compilegate validate news-topics           check the file
      compilegate run news-topics                execute it here, and write a report
      compilegate aws submit news-topics --wait  execute it on SageMaker, after `make deploy`

    The options below may stand behind the command, too.
    """
    command = context.invoked_subcommand
    if use_account and command not in ABOUT_AWS:
        raise click.UsageError(f"--aws: `{command}` works on this machine; see `compilegate aws`")
    if not project.is_dir() and command != "init":
        raise click.UsageError(f"--project: {project} is not a folder")
    context.obj = project_of(context)


@click.group(
    "pipeline",
    cls=LazyGroup,
    modules={
        "compile": ("definitions:compile_command", "Print a workload's definition."),
        "explain": ("run:explain_command", "Say what each step would do here."),
        "run": ("run:run_definition_command", "Execute a definition on this machine."),
    },
)
def pipeline() -> None:
    """Work with SageMaker pipeline definitions: a workload's own, and any other."""


@click.group(
    "models",
    cls=LazyGroup,
    invoke_without_command=True,
    modules={
        "list": ("models:list_command", "List the packages of one group or of all."),
        "show": ("models:show_command", "Show one package."),
        "approve": ("models:approve_command", "Approve one package for deployment."),
        "reject": ("models:reject_command", "Reject one package."),
        "serve": ("models:serve_command", "Let a registered model answer requests here."),
    },
)
@click.pass_context
def models(context: click.Context) -> None:
    """List the models that executions registered; show, approve, reject or serve one.

    \b
      compilegate models                           the whole registry of this machine
      compilegate models approve news-topics/3     approve one model package, GROUP/VERSION
      compilegate models list --aws                the registry of the account

    In the account, approving a model deploys it if its workload says so.
    """
    if context.invoked_subcommand is None:
        context.invoke(importlib.import_module("compilegate.cli.models").list_command)


@click.group(
    "aws",
    cls=LazyGroup,
    modules={
        "plan": ("aws.plan", "Show what a deployment would change, an execution cost."),
        "submit": ("aws.executions:submit_command", "Start an execution."),
        "watch": ("aws.executions:watch_command", "Follow an execution to its verdict."),
        "stop": ("aws.executions:stop_command", "Stop an execution and its jobs."),
        "images": ("aws.images", "List the container images; build the missing ones."),
        "upload": ("aws.executions:upload_command", "Upload a workload's raw data to the bucket."),
        "roles": ("definitions:roles_command", "Print the roles of a workload."),
        "promote": ("models:promote_command", "Bring an approved model to this stage."),
    },
)
def aws() -> None:
    """Work with the account that infra/settings.toml names: plan, start and follow executions."""
