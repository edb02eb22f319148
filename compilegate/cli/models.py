"""`compilegate models`: the registered models, and which may be deployed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from compilegate.cli.options import (
    Project,
    completing,
    json_option,
    pass_project,
)
from compilegate.cli.places import Here, Package, Place, place_of
from compilegate.cli.terminal.errors import aligned
from compilegate.gate.verdict import Verdict, VerdictError

COLUMNS = ("MODEL PACKAGE", "ARM", "SEED", "APPROVAL", "CREATED", "METRICS (MEAN OVER SEEDS)")


@click.command("list")
@click.argument("group", required=False, shell_complete=completing("group"))
@json_option
@pass_project
def list_command(project: Project, group: str | None, *, as_json: bool) -> None:
    """List the packages of one group or of all, oldest first."""
    place = place_of(project)
    groups = place.groups() if group is None else [group]
    found = [package for name in groups for package in place.packages(name)]
    if group is not None and not found:
        there = ", ".join(place.groups()) or "none"
        raise click.UsageError(
            f"group {group!r} has no model package in {place.called}; groups: {there}"
        )
    if as_json:
        click.echo(json.dumps([_facts(package, place) for package in found], indent=2))
        return
    if not found:
        click.echo(
            f"No model is registered in {place.called} yet; start with: compilegate run news-topics"
        )
        return
    for line in aligned([COLUMNS, *(_row(package, place) for package in found)]):
        click.echo(line)


@click.command("show")
@click.argument("package", shell_complete=completing("package"))
@json_option
@pass_project
def show_command(project: Project, package: str, *, as_json: bool) -> None:
    """Show one package: its state, metrics, where it comes from, and its files."""
    place = place_of(project)
    found = place.describe(package)
    if as_json:
        click.echo(json.dumps(_facts(found, place), indent=2))
        return
    for line in aligned(_described(found, place)):
        click.echo(line)


_REASON = click.option(
    "--reason",
    help="Why; it is kept with the package. A rejection in the account needs one.",
)


@click.command("approve")
@click.argument("package", shell_complete=completing("package"))
@_REASON
@pass_project
def approve_command(project: Project, package: str, reason: str | None) -> None:
    """Mark one package as approved for deployment."""
    _change(place_of(project), package, "Approved", reason)


@click.command("reject")
@click.argument("package", shell_complete=completing("package"))
@_REASON
@pass_project
def reject_command(project: Project, package: str, reason: str | None) -> None:
    """Mark one package as rejected. One that answers requests in the account is replaced by the
    model that was approved before it."""
    if reason is None and project.aws:
        raise click.UsageError("--reason is missing, allowed: why the model is rejected")
    _change(place_of(project), package, "Rejected", reason)


def _change(place: Place, reference: str, status: str, reason: str | None) -> None:
    before = place.describe(reference)["ModelApprovalStatus"]
    place.decide(reference, status, reason)
    click.echo(f"{reference}: {status if before == status else f'{before} -> {status}'}")


def _facts(package: Package, place: Place) -> dict[str, Any]:
    """For programs."""
    facts = {**package, "Metrics": _metrics(package, place)}
    if isinstance(place, Here):
        facts["LocalFiles"] = {uri: place.file(uri) for uri in _uris(package)}
    return facts


def _row(package: Package, place: Place) -> tuple[str, ...]:
    metadata = _metadata(package)
    return (
        _name(package),
        str(metadata.get("arm", "-")),
        str(metadata.get("seed", "-")),
        str(package["ModelApprovalStatus"]),
        str(package.get("CreationTime", "-"))[:19],
        _metrics_text(package, place) or "-",
    )


def _described(package: Package, place: Place) -> list[tuple[str, str]]:
    """(what, value) for people; what a package from elsewhere lacks is left out."""
    metadata, approval = _metadata(package), str(package["ModelApprovalStatus"])
    if why := package.get("ApprovalDescription"):
        approval = f"{approval}, {why}"
    execution = package.get("Origin", {}).get("ExecutionId") or metadata.get("execution")
    files = [place.file(uri) for uri in _uris(package)]
    rows = [
        ("model", _name(package)),
        ("approval", approval),
        ("what", package.get("ModelPackageDescription")),
        *((name, metadata.get(name)) for name in ("arm", "compiler", "seed")),
        ("metrics", _metrics_text(package, place)),
        ("registered", str(package.get("CreationTime", ""))[:19]),
        ("execution", execution),
        ("training job", metadata.get("training_job")),
        ("promoted from", metadata.get("promoted_from")),
        ("ARN", package.get("ModelPackageArn")),
        *((f"file {number}", name) for number, name in enumerate(files, start=1)),
    ]
    return [(what, str(value)) for what, value in rows if value]


def _name(package: Package) -> str:
    return f"{package['ModelPackageGroupName']}/{package['ModelPackageVersion']}"


def _metadata(package: Package) -> Mapping[str, Any]:
    """What the pipeline said of it: its arm, seed, verdict."""
    found: Mapping[str, Any] = package.get("CustomerMetadataProperties") or {}
    return found


def _uris(package: Package) -> list[str]:
    """Its archive, and its verdict."""
    containers = package.get("InferenceSpecification", {}).get("Containers", [])
    archives = [each["ModelDataUrl"] for each in containers if "ModelDataUrl" in each]
    verdict = _metadata(package).get("verdict")
    return archives if verdict is None else [*archives, verdict]


def _metrics_text(package: Package, place: Place) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in _metrics(package, place).items())


def _metrics(package: Package, place: Place) -> dict[str, float]:
    """The guarded metrics of the model's arm, each a mean over the seeds; none without a verdict
    of Compilegate's kind, as for a model from somebody else's definition."""
    uri, arm = _metadata(package).get("verdict"), str(_metadata(package).get("arm"))
    text = None if uri is None else place.read(str(uri))
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
