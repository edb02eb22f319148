"""`compilegate models`: the registered models, and which may be deployed.

The metrics of a registered model, from the verdict that it carries.
"""

from __future__ import annotations

import json
from typing import Any

import click

from compilegate.cli.options import (
    Project,
    completing,
    json_option,
    pass_project,
)
from compilegate.cli.places import Deployed, Model, Place, place_of
from compilegate.cli.terminal.errors import aligned
from compilegate.gate.verdict import Verdict, VerdictError


def package_metrics(model: Model, place: Place) -> dict[str, float]:
    """The guarded metrics of the model's arm, each a mean over the seeds; none without a verdict
    of Compilegate's kind, as for a model from somebody else's definition."""
    uri, arm = model.metadata.get("verdict"), model.metadata.get("arm")
    text = None if uri is None else place.read(str(uri))
    if text is None:
        return {}
    try:
        verdict = Verdict.from_json(text)
    except VerdictError:
        return {}
    return arm_metrics(verdict, str(arm))


def arm_metrics(verdict: Verdict, arm: str) -> dict[str, float]:
    """What the verdict says about one arm; the baseline's values stand beside each candidate's."""
    if arm == verdict.baseline.arm:
        floor = {floor.metric: floor.mean for floor in verdict.baseline.noise_floor}
        compared = {
            metric.metric: metric.baseline
            for candidate in verdict.candidates
            for metric in candidate.metrics
        }
        return floor | compared
    return {
        metric.metric: metric.candidate
        for candidate in verdict.candidates
        if candidate.arm == arm
        for metric in candidate.metrics
    }


COLUMNS = ("MODEL PACKAGE", "ARM", "SEED", "APPROVAL", "CREATED", "METRICS (MEAN OVER SEEDS)")


@click.command("list")
@click.argument("group", required=False, shell_complete=completing("group"))
@json_option
@pass_project
def list_command(project: Project, group: str | None, *, as_json: bool) -> None:
    """List the packages of one group or of all, oldest first."""
    place = place_of(project)
    groups = place.groups() if group is None else [group]
    models = [model for name in groups for model in place.models(name)]
    if group is not None and not models:
        there = ", ".join(place.groups()) or "none"
        raise click.UsageError(
            f"group {group!r} has no model package in {place.called}; groups: {there}"
        )
    if as_json:
        click.echo(json.dumps([_facts(model, place) for model in models], indent=2))
        return
    if not models:
        click.echo(
            f"No model is registered in {place.called} yet; start with: compilegate run news-topics"
        )
        return
    for line in aligned([COLUMNS, *(_row(model, place) for model in models)]):
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


def _described(model: Model, place: Place) -> list[tuple[str, str]]:
    """(what, value) for people; what a package from elsewhere lacks is left out."""
    description, metadata = model.description, model.metadata
    metrics = package_metrics(model, place)
    files = [place.file(uri) for uri in model.uris]
    rows = [
        ("model", model.name),
        ("approval", _approval(model)),
        ("what", str(description.get("ModelPackageDescription", ""))),
        *((name, str(metadata.get(name, ""))) for name in ("arm", "compiler", "seed")),
        ("metrics", ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())),
        ("registered", str(description.get("CreationTime", ""))[:19]),
        ("execution", model.execution),
        ("training job", str(metadata.get("training_job", ""))),
        ("promoted from", str(metadata.get("promoted_from", ""))),
        ("ARN", str(description.get("ModelPackageArn", ""))),
        *((f"file {number}", name) for number, name in enumerate(files, start=1)),
    ]
    return [row for row in rows if row[1]]


def _approval(model: Model) -> str:
    why = model.description.get("ApprovalDescription")
    return f"{model.approval}, {why}" if why else model.approval


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
    place = place_of(project)
    if reason is None and isinstance(place, Deployed):
        raise click.UsageError("--reason is missing, allowed: why the model is rejected")
    _change(place, package, "Rejected", reason)


def _change(place: Place, package: str, status: str, reason: str | None) -> None:
    before = place.describe(package)
    place.decide(package, status, reason)
    said = f"{before.approval} -> {status}" if before.approval != status else status
    click.echo(f"{package}: {said}")


def _facts(model: Model, place: Place) -> dict[str, Any]:
    files = {uri: place.file(uri) for uri in model.uris}
    return {
        **model.description,
        "Metrics": package_metrics(model, place),
        **({} if isinstance(place, Deployed) else {"LocalFiles": files}),
    }


def _row(model: Model, place: Place) -> tuple[str, ...]:
    metrics = package_metrics(model, place)
    return (
        model.name,
        str(model.metadata.get("arm", "-")),
        str(model.metadata.get("seed", "-")),
        model.approval,
        str(model.description.get("CreationTime", "-"))[:19],
        ", ".join(f"{name} {value:.4f}" for name, value in metrics.items()) or "-",
    )
