"""`compilegate models`: the registered models, and which may be deployed.

The metrics of a registered model, from the verdict that it carries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from compilegate.cli.options.completing import complete_group, complete_package
from compilegate.cli.options.home import home_option
from compilegate.cli.terminal.tables import aligned
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.local import (
    ModelPackage,
    ObjectStore,
    describe_package,
    list_groups,
    list_packages,
    set_approval,
)


def package_metrics(package: ModelPackage, home: Path) -> dict[str, float]:
    """The guarded metrics of the package's arm, each a mean over the seeds; none without a verdict
    of Compilegate's kind, as for a package from somebody else's definition."""
    metadata = package.description.get("CustomerMetadataProperties", {})
    uri, arm = metadata.get("verdict"), metadata.get("arm")
    if uri is None:
        return {}
    path = ObjectStore(home / "s3").path(uri)
    if not path.is_file():
        return {}
    try:
        verdict = Verdict.from_json(path.read_bytes())
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


@click.group("models", invoke_without_command=True)
@home_option
@click.pass_context
def command(ctx: click.Context, home: Path) -> None:
    """List the models that executions on this machine registered; show, approve or reject one.

    \b
      compilegate models                           the whole registry
      compilegate models show news-topics/3        everything about one package
      compilegate models approve news-topics/3     approve it for deployment

    A model package is GROUP/VERSION, as in SageMaker's model registry. These commands only see the
    packages on this machine.
    """
    ctx.obj = home
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@command.command("list")
@click.argument("group", required=False, shell_complete=complete_group)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.pass_obj
def list_command(home: Path, group: str | None = None, as_json: bool = False) -> None:
    """List the packages of one group or of all, oldest first."""
    groups = list_groups(home)
    if group is not None and group not in groups:
        there = ", ".join(groups) or "none"
        raise click.UsageError(f"group {group!r} has no model package in {home}; groups: {there}")
    packages = [
        package
        for name in ([group] if group is not None else groups)
        for package in list_packages(home, name)
    ]
    if as_json:
        click.echo(json.dumps([_facts(package, home) for package in packages], indent=2))
        return
    if not packages:
        click.echo(f"No model is registered in {home} yet; start with: compilegate run news-topics")
        return
    for line in aligned([COLUMNS, *(_row(package, home) for package in packages)]):
        click.echo(line)


@command.command("show")
@click.argument("package", shell_complete=complete_package)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, for programs.")
@click.pass_obj
def show_command(home: Path, package: str, as_json: bool = False) -> None:
    """Show one package: its state, metrics, where it comes from, and its files."""
    found = describe_package(home, package)
    if as_json:
        click.echo(json.dumps(_facts(found, home), indent=2))
        return
    for line in aligned(_described(found, home)):
        click.echo(line)


def _described(package: ModelPackage, home: Path) -> list[tuple[str, str]]:
    """(what, value) for people; what a package from elsewhere lacks is left out."""
    description = package.description
    metadata = description.get("CustomerMetadataProperties", {})
    metrics = package_metrics(package, home)
    rows = [
        ("model", f"{package.group}/{package.version}"),
        ("approval", _approval(package)),
        ("what", str(description.get("ModelPackageDescription", ""))),
        *((name, str(metadata.get(name, ""))) for name in ("arm", "compiler", "seed")),
        ("metrics", ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())),
        ("registered", str(description.get("CreationTime", ""))[:19]),
        ("execution", package.execution_id),
        ("training job", str(metadata.get("training_job", ""))),
        ("ARN", package.arn),
        *((f"file {number}", str(path)) for number, path in _numbered(_files(package, home))),
    ]
    return [row for row in rows if row[1]]


def _approval(package: ModelPackage) -> str:
    why = package.description.get("ApprovalDescription")
    return f"{package.approval_status}, {why}" if why else package.approval_status


def _numbered(files: dict[str, str]) -> list[tuple[int, str]]:
    return list(enumerate(files.values(), start=1))


@command.command("approve")
@click.argument("package", shell_complete=complete_package)
@click.option("--description", help="Why; it is kept with the package.")
@click.pass_obj
def approve_command(home: Path, package: str, description: str | None) -> None:
    """Mark one package as approved for deployment."""
    _change(home, package, "Approved", description)


@command.command("reject")
@click.argument("package", shell_complete=complete_package)
@click.option("--description", help="Why; it is kept with the package.")
@click.pass_obj
def reject_command(home: Path, package: str, description: str | None) -> None:
    """Mark one package as rejected."""
    _change(home, package, "Rejected", description)


def _change(home: Path, package: str, status: str, description: str | None) -> None:
    before = describe_package(home, package).approval_status
    set_approval(home, package, status, description)
    click.echo(f"{package}: {before} -> {status}" if before != status else f"{package}: {status}")


def _facts(package: ModelPackage, home: Path) -> dict[str, Any]:
    facts = {"Metrics": package_metrics(package, home), "LocalFiles": _files(package, home)}
    return {**package.description, **facts}


def _row(package: ModelPackage, home: Path) -> tuple[str, ...]:
    metadata = package.description.get("CustomerMetadataProperties", {})
    return (
        f"{package.group}/{package.version}",
        str(metadata.get("arm", "-")),
        str(metadata.get("seed", "-")),
        package.approval_status,
        str(package.description.get("CreationTime", "-"))[:19],
        ", ".join(f"{name} {value:.4f}" for name, value in package_metrics(package, home).items())
        or "-",
    )


def _files(package: ModelPackage, home: Path) -> dict[str, str]:
    """The package's s3:// URIs, and the files here that they stand for."""
    store = ObjectStore(home / "s3")
    containers = package.description.get("InferenceSpecification", {}).get("Containers", [])
    uris = [container["ModelDataUrl"] for container in containers if "ModelDataUrl" in container]
    metadata = package.description.get("CustomerMetadataProperties", {})
    if "verdict" in metadata:
        uris.append(metadata["verdict"])
    return {uri: str(store.path(uri)) for uri in uris}
