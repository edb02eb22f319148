"""`compilegate models serve`: a registered model answers requests, as in its inference image."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from compilegate.serving import serving_model, unpack_model


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
    help="The interpreter of the environment that stands for the inference image; by default "
    "this one's.",
)
@click.option(
    "--request",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Send this file to the model, print the answer and end; `-` reads standard input.",
)
@click.option(
    "--content-type", default="application/json", show_default=True, help="What the request is."
)
@pass_project
def command(
    project: Project,
    package: str,
    *,
    port: int,
    python: Path | None,
    request: Path | None,
    content_type: str,
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
        raise click.UsageError("--aws: `serve` works on this machine")
    home = project.home
    found = _package(home, package)
    container = _container(found)
    interpreter = python or Path(sys.executable)
    environment = {str(name): str(each) for name, each in container["Environment"].items()}
    with tempfile.TemporaryDirectory(prefix="compilegate-serve-") as work:
        model = Path(work) / "model"
        unpack_model(_archive(found, home), model)
        _check_requirements(model, interpreter)
        log = home / "serving" / f"{found.group}-{found.version}.log"
        with serving_model(
            model,
            python=interpreter,
            environment=environment,
            log=log,
            port=0 if request else port,
            defaults=_defaults(container),
        ) as server:
            if request is not None:
                body = sys.stdin.buffer.read() if str(request) == "-" else request.read_bytes()
                answer = server.invoke(body, content_type=content_type, accept="application/json")
                if answer.status != 200:
                    said = answer.body.decode("utf-8", errors="replace")
                    raise RefusalError(f"the handler answered {answer.status}: {said}")
                sys.stdout.buffer.write(answer.body.rstrip(b"\n") + b"\n")
                return
            click.echo(
                f"{found.group}/{found.version} answers at {server.url}/invocations (log: {log})"
            )
            try:
                status = server.wait()
            except KeyboardInterrupt:
                click.echo("stopped")
                return
            raise RefusalError(f"the model's server ended with status {status}: see {log}")


def _package(home: Path, name: str) -> ModelPackage:
    """The version that is named; of a group the newest."""
    if "/" in name:
        return describe_package(home, name)
    versions = list_packages(home, name)
    if not versions:
        raise RefusalError(f"no model is registered under {name} in {home}")
    return versions[-1]


def _container(package: ModelPackage) -> Mapping[str, Any]:
    """The container that serves the package. Refuses a package that was registered without."""
    specification = package.description.get("InferenceSpecification", {})
    containers = specification.get("Containers", [])
    if not containers or not specification.get("SupportedContentTypes"):
        raise RefusalError(
            f"{package.group}/{package.version} was registered without saying how it is served, "
            "allowed: models of a workload with a table [serving]; add one and run it again"
        )
    return {"Environment": {}, **containers[0]}


def _archive(package: ModelPackage, home: Path) -> Path:
    uri = package.description["InferenceSpecification"]["Containers"][0]["ModelDataUrl"]
    path = ObjectStore(home / "s3").path(uri)
    if not path.is_file():
        raise RefusalError(f"{path}, the archive of {package.group}/{package.version}, is gone")
    return path


def _defaults(container: Mapping[str, Any]) -> str:
    return "huggingface" if container.get("Framework") == "HUGGINGFACE" else "pytorch"


def _check_requirements(model: Path, python: Path) -> None:
    """An inference image installs code/requirements.txt when it starts; nothing is installed into
    the user's environment here."""
    requirements = model / "code" / "requirements.txt"
    if not requirements.is_file():
        return
    unmet = unmet_requirement(requirements, python)
    if unmet is not None:
        raise RefusalError(
            f"code/requirements.txt of the model asks for {unmet!r}, which {python} does not have, "
            "allowed: --python with the interpreter of an environment that has it"
        )
