"""`compilegate models`: the registered models, and which may be deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from compilegate.account.registry import RegisteredModel, Registry
from compilegate.cli.options import (
    Project,
    completing,
    json_option,
    pass_project,
    print_json,
    print_table,
)
from compilegate.cli.places import open_account
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.local import (
    ModelPackage,
    ObjectStore,
    describe_package,
    list_groups,
    list_packages,
    set_approval,
)

Model = ModelPackage | RegisteredModel
COLUMNS = ("MODEL PACKAGE", "ARM", "SEED", "APPROVAL", "CREATED", "METRICS (MEAN OVER SEEDS)")


@dataclass(frozen=True)
class LocalRegistry:
    """The models of this machine, by the methods of the account's registry."""

    home: Path

    def groups(self) -> list[str]:
        return list_groups(self.home)

    def models(self, group: str) -> list[ModelPackage]:
        return list_packages(self.home, group)

    def describe(self, reference: str) -> ModelPackage:
        return describe_package(self.home, reference)

    def decide(self, reference: str, status: str, reason: str | None) -> ModelPackage:
        return set_approval(self.home, reference, status, reason)

    def object_at(self, uri: str) -> bytes | None:
        path = self.file(uri)
        return path.read_bytes() if path.is_file() else None

    def file(self, uri: str) -> Path:
        return ObjectStore(self.home / "s3").path(uri)


AnyRegistry = Registry | LocalRegistry


def registry_of(project: Project) -> AnyRegistry:
    """The account's with `--aws`, or else this machine's."""
    if not project.aws:
        return LocalRegistry(project.home)
    account = open_account(project)
    return Registry(account.session, account.names.settings.project)


@click.command("list")
@click.argument("group", required=False, shell_complete=completing("group"))
@json_option
@pass_project
def list_command(project: Project, group: str | None, *, as_json: bool) -> None:
    """List the packages of one group or of all, oldest first."""
    registry = registry_of(project)
    groups = registry.groups() if group is None else [group]
    found = [model for name in groups for model in registry.models(name)]
    if isinstance(registry, LocalRegistry):
        where = str(registry.home)
    else:
        where = f"account {registry.session.account}, {registry.session.region}"
    if group is not None and not found:
        there = ", ".join(registry.groups()) or "none"
        raise click.UsageError(f"group {group!r} has no model package in {where}; groups: {there}")
    if as_json:
        print_json([_facts(model, registry) for model in found])
    elif not found:
        click.echo(f"No model is registered in {where} yet; `compilegate run NAME` registers one")
    else:
        print_table([COLUMNS, *(_row(model, registry) for model in found)])


@click.command("show")
@click.argument("package", shell_complete=completing("package"))
@json_option
@pass_project
def show_command(project: Project, package: str, *, as_json: bool) -> None:
    """Show one package: its state, metrics, where it comes from, and its files."""
    registry = registry_of(project)
    found = registry.describe(package)
    if as_json:
        print_json(_facts(found, registry))
    else:
        print_table(_described(found, registry))


_REASON = click.option(
    "--reason", help="Why; it is kept with the package. A rejection in the account needs one."
)


@click.command("approve")
@click.argument("package", shell_complete=completing("package"))
@_REASON
@pass_project
def approve_command(project: Project, package: str, reason: str | None) -> None:
    """Mark one package as approved for deployment."""
    _change(registry_of(project), package, "Approved", reason)


@click.command("reject")
@click.argument("package", shell_complete=completing("package"))
@_REASON
@pass_project
def reject_command(project: Project, package: str, reason: str | None) -> None:
    """Mark one package as rejected. One that answers requests in the account is replaced by the
    model that was approved before it."""
    if reason is None and project.aws:
        raise click.UsageError("--reason is missing; a rejection in the account needs one")
    _change(registry_of(project), package, "Rejected", reason)


def _change(registry: AnyRegistry, reference: str, status: str, reason: str | None) -> None:
    before = registry.describe(reference).description["ModelApprovalStatus"]
    registry.decide(reference, status, reason)
    click.echo(f"{reference}: {status if before == status else f'{before} -> {status}'}")


def _facts(model: Model, registry: AnyRegistry) -> dict[str, Any]:
    """For programs."""
    facts = {**model.description, "Metrics": _metrics(model, registry)}
    if isinstance(registry, LocalRegistry):
        facts["LocalFiles"] = {uri: str(registry.file(uri)) for uri in _uris(model)}
    return facts


def _row(model: Model, registry: AnyRegistry) -> tuple[str, ...]:
    metadata = _metadata(model)
    return (
        f"{model.group}/{model.version}",
        str(metadata.get("arm", "-")),
        str(metadata.get("seed", "-")),
        str(model.description["ModelApprovalStatus"]),
        str(model.description.get("CreationTime", "-"))[:19],
        _metrics_text(model, registry) or "-",
    )


def _described(model: Model, registry: AnyRegistry) -> list[tuple[str, str]]:
    """(what, value) for people; what a package from elsewhere lacks is left out."""
    description, metadata = model.description, _metadata(model)
    local = isinstance(model, ModelPackage)
    execution = model.execution_id if local else metadata.get("execution")
    approval, why = description["ModelApprovalStatus"], description.get("ApprovalDescription")
    rows = [
        ("model", f"{model.group}/{model.version}"),
        ("approval", f"{approval}, {why}" if why else approval),
        ("what", description.get("ModelPackageDescription")),
        *((name, metadata.get(name)) for name in ("arm", "compiler", "seed")),
        ("metrics", _metrics_text(model, registry)),
        ("registered", str(description.get("CreationTime", ""))[:19]),
        ("execution", execution),
        ("training job", metadata.get("training_job")),
        ("promoted from", metadata.get("promoted_from")),
        ("ARN", description.get("ModelPackageArn")),
    ]
    for number, uri in enumerate(_uris(model), start=1):
        file = registry.file(uri) if isinstance(registry, LocalRegistry) else uri
        rows.append((f"file {number}", file))
    return [(what, str(value)) for what, value in rows if value]


def _metadata(model: Model) -> Mapping[str, Any]:
    """What the pipeline said of it: its arm, seed, verdict."""
    found: Mapping[str, Any] = model.description.get("CustomerMetadataProperties") or {}
    return found


def _uris(model: Model) -> list[str]:
    """Its archive, and its verdict."""
    containers = model.description.get("InferenceSpecification", {}).get("Containers", [])
    archives = [each["ModelDataUrl"] for each in containers if "ModelDataUrl" in each]
    verdict = _metadata(model).get("verdict")
    return archives if verdict is None else [*archives, verdict]


def _metrics_text(model: Model, registry: AnyRegistry) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in _metrics(model, registry).items())


def _metrics(model: Model, registry: AnyRegistry) -> dict[str, float]:
    """The guarded metrics of the model's arm, each a mean over the seeds; none without a verdict
    of Compilegate's kind, as for a model from somebody else's definition."""
    uri, arm = _metadata(model).get("verdict"), str(_metadata(model).get("arm"))
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
