"""`compilegate models`: list registered models; approve, reject, serve or promote one."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import click

from compilegate.account.promotion import Promotion
from compilegate.account.registry import VERSION, RegisteredModel, Registry
from compilegate.account.settings import STAGE_VARIABLE
from compilegate.cli import options
from compilegate.cli.options import Project, completing, pass_project
from compilegate.cli.places import open_account, place_of
from compilegate.cli.printing import RefusalError, print_json, print_table
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.local import (
    ModelPackage,
    ObjectStore,
    describe_package,
    first_unmet,
    list_groups,
    list_packages,
    set_approval,
)
from compilegate.serving import ModelServer, serving_model, unpack_model

JSON = "application/json"
COLUMNS = ("MODEL PACKAGE", "ARM", "SEED", "APPROVAL", "CREATED", "METRICS (MEAN OVER SEEDS)")


@dataclass(frozen=True)
class LocalRegistry:
    """The models of this machine, by the methods of the account's registry."""

    home: Path

    def groups(self) -> list[str]:
        return list_groups(self.home)

    def models(self, group: str) -> list[RegisteredModel]:
        return [_registered(package) for package in list_packages(self.home, group)]

    def describe(self, reference: str) -> RegisteredModel:
        return _registered(describe_package(self.home, reference))

    def decide(self, reference: str, status: str, reason: str | None) -> RegisteredModel:
        return _registered(set_approval(self.home, reference, status, reason))

    def object_at(self, uri: str) -> bytes | None:
        path = self.file(uri)
        return path.read_bytes() if path.is_file() else None

    def file(self, uri: str) -> Path:
        return ObjectStore(self.home / "s3").path(uri)


def _registered(package: ModelPackage) -> RegisteredModel:
    return RegisteredModel(package.group, package.version, package.description)


AnyRegistry = Registry | LocalRegistry


def registry_of(project: Project) -> AnyRegistry:
    """The account's with `--aws`, or else this machine's."""
    if not project.aws:
        return LocalRegistry(project.home)
    account = open_account(project)
    return Registry(account.session, account.names.settings.project)


@click.command("list")
@click.argument("group", required=False, shell_complete=completing("group"))
@options.as_json
@pass_project
def list_command(project: Project, group: str | None, *, as_json: bool) -> None:
    """List the packages of one group or of all, oldest first."""
    registry = registry_of(project)
    groups = registry.groups() if group is None else [group]
    found = [model for name in groups for model in registry.models(name)]
    if group is not None and not found:
        where = place_of(project)
        there = ", ".join(registry.groups()) or "none"
        raise click.UsageError(f"group {group!r} has no model package in {where}; groups: {there}")
    if as_json:
        print_json([_facts(model, registry) for model in found])
    elif not found:
        place = place_of(project)
        click.echo(f"No model is registered in {place} yet; `compilegate run NAME` registers one")
    else:
        print_table([COLUMNS, *(_row(model, registry) for model in found)])


_PACKAGE = click.argument("package", shell_complete=completing("package"))
_REASON = click.option(
    "--reason", help="Why; it is kept with the package. A rejection in the account needs one."
)


@click.command("show")
@_PACKAGE
@options.as_json
@pass_project
def show_command(project: Project, package: str, *, as_json: bool) -> None:
    """Show one package: its state, metrics, where it comes from, and its files."""
    registry = registry_of(project)
    found = registry.describe(package)
    if as_json:
        print_json(_facts(found, registry))
    else:
        print_table(_described(found, registry))


@click.command("approve")
@_PACKAGE
@_REASON
@pass_project
def approve_command(project: Project, package: str, reason: str | None) -> None:
    """Mark one package as approved for deployment."""
    _change(registry_of(project), package, "Approved", reason)


@click.command("reject")
@_PACKAGE
@_REASON
@pass_project
def reject_command(project: Project, package: str, reason: str | None) -> None:
    """Mark one package as rejected. One that answers requests in the account is replaced by the
    model that was approved before it."""
    if reason is None and project.aws:
        raise click.UsageError("--reason is missing; a rejection in the account needs one")
    _change(registry_of(project), package, "Rejected", reason)


def _change(registry: AnyRegistry, reference: str, status: str, reason: str | None) -> None:
    before = registry.describe(reference).approval
    registry.decide(reference, status, reason)
    click.echo(f"{reference}: {status if before == status else f'{before} -> {status}'}")


@click.command("promote")
@click.argument("model", metavar="GROUP/VERSION")
@pass_project
def promote_command(project: Project, model: str) -> None:
    """Bring a model that was approved in the stage before to this one.

    \b
      COMPILEGATE_STAGE=prod compilegate aws promote news-topics/3

    The stage that the environment variable names says by `from` where its models come from. The
    archive and the verdict are copied and the model is registered here, where it waits for this
    stage's own approval. GROUP/VERSION is the model's name there, without the project's in front.
    A model that came before is not copied again.
    """
    found = VERSION.fullmatch(model)
    if found is None or found["arn"]:
        raise click.UsageError(f"MODEL is {model!r}, expected GROUP/VERSION, such as news-topics/3")
    account = open_account(project)
    names, source = account.names, account.names.settings.source
    if source is None:
        raise RefusalError(
            f"{project.settings_file}: source is missing, so nothing says where "
            "models come from; add a table [source], or choose a stage with `from` "
            f"by {STAGE_VARIABLE}"
        )
    registry = Registry(account.session, names.settings.project)
    promotion = Promotion(source, account.session, registry, account.bucket)
    group = found["group"].removeprefix(f"{source.project}-")
    copy, is_new = promotion.promote(group, int(found["version"]))
    if is_new:
        click.echo(f"{model} of account {source.account} is {copy.name} here; approve it with:")
        click.echo(f"  compilegate models approve {copy.name} --aws")
    else:
        click.echo(f"{model} of account {source.account} is {copy.name} here already")


def _facts(model: RegisteredModel, registry: AnyRegistry) -> dict[str, Any]:
    """For programs."""
    facts = {**model.description, "Metrics": _metrics(model, registry)}
    if isinstance(registry, LocalRegistry):
        facts["LocalFiles"] = {uri: str(registry.file(uri)) for uri in _uris(model)}
    return facts


def _row(model: RegisteredModel, registry: AnyRegistry) -> tuple[str, ...]:
    return (
        model.name,
        str(model.metadata.get("arm", "-")),
        str(model.metadata.get("seed", "-")),
        model.approval,
        str(model.description.get("CreationTime", "-"))[:19],
        _metrics_text(model, registry) or "-",
    )


def _described(model: RegisteredModel, registry: AnyRegistry) -> list[tuple[str, str]]:
    """(what, value) for people; what a package of another program lacks is left out."""
    description, metadata = model.description, model.metadata
    why = description.get("ApprovalDescription")
    local = description.get("Origin", {}).get("ExecutionId")
    files = [
        registry.file(uri) if isinstance(registry, LocalRegistry) else uri for uri in _uris(model)
    ]
    rows = [
        ("model", model.name),
        ("approval", f"{model.approval}, {why}" if why else model.approval),
        ("what", description.get("ModelPackageDescription")),
        *((name, metadata.get(name)) for name in ("arm", "compiler", "seed")),
        ("metrics", _metrics_text(model, registry)),
        ("registered", str(description.get("CreationTime", ""))[:19]),
        ("execution", local or metadata.get("execution")),
        ("training job", metadata.get("training_job")),
        ("promoted from", metadata.get("promoted_from")),
        ("ARN", description.get("ModelPackageArn")),
        *((f"file {number}", file) for number, file in enumerate(files, start=1)),
    ]
    return [(what, str(value)) for what, value in rows if value]


def _uris(model: RegisteredModel) -> list[str]:
    """Its archive, and its verdict."""
    containers = model.description.get("InferenceSpecification", {}).get("Containers", [])
    archives = [each["ModelDataUrl"] for each in containers if "ModelDataUrl" in each]
    verdict = model.metadata.get("verdict")
    return archives if verdict is None else [*archives, verdict]


def _metrics_text(model: RegisteredModel, registry: AnyRegistry) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in _metrics(model, registry).items())


def _metrics(model: RegisteredModel, registry: AnyRegistry) -> dict[str, float]:
    """The guarded metrics of the model's arm, each a mean over the seeds; none without a verdict
    of Compilegate's kind, as for a model of another definition."""
    uri, arm = model.metadata.get("verdict"), str(model.metadata.get("arm"))
    text = None if uri is None else registry.object_at(str(uri))
    if text is None:
        return {}
    try:
        verdict = Verdict.from_json(text)
    except VerdictError:
        return {}
    compared = [
        (candidate.arm, metric) for candidate in verdict.candidates for metric in candidate.metrics
    ]
    if arm == verdict.baseline.arm:  # its values stand beside each candidate's
        floors = {floor.metric: floor.mean for floor in verdict.baseline.noise_floor}
        return floors | {metric.metric: metric.baseline for _, metric in compared}
    return {metric.metric: metric.candidate for of, metric in compared if of == arm}


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
def serve_command(
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
        text = answer.body.decode("utf-8", errors="replace")
        raise RefusalError(f"the handler answered with status {answer.status}: {text}")
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
    unmet = first_unmet(requirements, python) if requirements.is_file() else None
    if unmet is not None:
        raise RefusalError(
            f"code/requirements.txt of the model requires {unmet!r}, which {python} "
            "does not have; name an environment that has it with --python"
        )
