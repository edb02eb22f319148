"""`compilegate models serve`: a registered model answers requests, as in its inference image."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

import click

from compilegate.cli.options import Project, completing, pass_project
from compilegate.cli.terminal.errors import RefusalError
from compilegate.local import (
    ModelPackage,
    ObjectStore,
    describe_package,
    list_packages,
    unmet_requirement,
)
from compilegate.serving import ModelServer, serving_model, unpack_model

JSON = "application/json"


@click.command("serve")
@click.argument("package", metavar="NAME[/VERSION]", shell_complete=completing("package"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Where to listen on this machine alone; 0 takes a free port.",
)
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=sys.executable,
    help="The interpreter that stands for the inference image; by default this one.",
)
@click.option(
    "--request",
    type=click.File("rb"),
    help="Send this file, JSON, to the model, print the answer and end; `-` reads standard input.",
)
@pass_project
def command(
    project: Project, package: str, *, port: int, python: Path, request: BinaryIO | None
) -> None:
    """Serve a registered model on this machine: /ping and /invocations, as SageMaker asks.

    \b
      compilegate models serve news-topics/3
      curl localhost:8080/invocations -H 'Content-Type: application/json' \\
        -d '{"inputs": "Wheat prices rose."}'

    The model's archive is unpacked and its handler started in a process of its own, by the rules of
    AWS's inference toolkits. NAME alone stands for its newest version. Interrupt ends it.
    """
    if project.aws:
        raise click.UsageError("--aws: `models serve` works on this machine")
    found = _package(project.home, package)
    name = f"{found.group}/{found.version}"
    specification = found.description.get("InferenceSpecification", {})
    if not specification.get("Containers") or not specification.get("SupportedContentTypes"):
        raise RefusalError(
            f"{name} cannot be served: its workload had no table [serving]; add one and run the "
            "workload again"
        )
    container = specification["Containers"][0]
    archive = ObjectStore(project.home / "s3").path(container["ModelDataUrl"])
    if not archive.is_file():
        raise RefusalError(f"{archive}, the archive of {name}, is missing")
    log = project.home / "serving" / f"{found.group}-{found.version}.log"
    with tempfile.TemporaryDirectory(prefix="compilegate-serve-") as work:
        model = Path(work) / "model"
        unpack_model(archive, model)
        _check_requirements(model, python)
        with serving_model(
            model,
            python=python,
            environment={str(key): str(it) for key, it in container.get("Environment", {}).items()},
            log=log,
            port=0 if request else port,
            defaults="huggingface" if container.get("Framework") == "HUGGINGFACE" else "pytorch",
        ) as server:
            if request is not None:
                _answer(server, request.read())
                return
            click.echo(f"{name} answers at {server.url}/invocations (log: {log})")
            try:
                status = server.wait()
            except KeyboardInterrupt:
                click.echo("stopped")
                return
            raise RefusalError(f"the model's server exited with status {status}: see {log}")


def _answer(server: ModelServer, body: bytes) -> None:
    """Print what the model answers to one request."""
    answer = server.invoke(body, content_type=JSON, accept=JSON)
    if answer.status != 200:
        said = answer.body.decode("utf-8", errors="replace")
        raise RefusalError(f"the handler answered with status {answer.status}: {said}")
    sys.stdout.buffer.write(answer.body.rstrip(b"\n") + b"\n")


def _package(home: Path, name: str) -> ModelPackage:
    """The version that is named; of a group the newest."""
    if "/" in name:
        return describe_package(home, name)
    versions = list_packages(home, name)
    if not versions:
        raise RefusalError(f"no model is registered under {name} in {home}")
    return versions[-1]


def _check_requirements(model: Path, python: Path) -> None:
    """An inference image installs code/requirements.txt when it starts; nothing is installed into
    the user's environment here."""
    requirements = model / "code" / "requirements.txt"
    unmet = unmet_requirement(requirements, python) if requirements.is_file() else None
    if unmet is not None:
        raise RefusalError(
            f"code/requirements.txt of the model requires {unmet!r}, which {python} "
            "does not have; name an environment that has it with --python"
        )
