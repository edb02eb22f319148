"""What images extend: which bases each region has, and what their tags stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from compilegate.account.base_digests import base_digest
from compilegate.account.errors import AwsError
from compilegate.account.settings import Settings
from compilegate.account.settings.pins import LOCK_FILE, read_pins, write_pins
from compilegate.catalog.images import BaseImage
from compilegate.cli.options.account import Account, folders_of
from compilegate.cli.options.project import deployed_workloads, require_containers
from compilegate.cli.terminal.errors import RefusalError
from compilegate.cli.terminal.tables import aligned
from compilegate.pipelines.requests.regions import lacking_images, regions
from compilegate.pipelines.staging import ImageFolder

REGION_COLUMNS = (
    "REGION",
    "IMAGES WITHOUT A BASE THERE",
    "WORKLOADS THAT CANNOT GO THERE",
)


def pin_bases(
    account: Account, settings: Path, images: Sequence[ImageFolder], *, only_missing: bool
) -> None:
    """Look up each base's digest, and write those that are new."""
    before = read_pins(settings)
    after = dict(before)
    region = account.session.region
    for base in dict.fromkeys(image.base_name for image in images if "@" not in image.base_name):
        if only_missing and base in before:
            continue
        image = next(image for image in images if image.base_name == base)
        uri = replace(image, digest=None).base_uri(region)
        try:
            after[base] = base_digest(account.session, uri)
        except AwsError as error:
            raise RefusalError(
                f"{error}; where it can be asked, compilegate images --pin writes "
                f"{settings.with_name(LOCK_FILE)}, which is to be committed"
            ) from error
        was = before.get(base)
        said = "as before" if was == after[base] else "new" if was is None else f"was {was}"
        click.echo(f"{base} is {after[base]} ({said})")
    if after == before:
        return
    path = write_pins(settings, after)
    click.echo(f"{path} is written; commit it, and make deploy builds what has changed", err=True)


def list_regions(settings: Settings, workloads: Path, containers: Path) -> None:
    """A row for each region: which image folders cannot be built there, and whom that stops."""
    require_containers(containers)
    declared = [workload for workload, _ in deployed_workloads(settings, workloads)]
    folders = folders_of(settings, containers)
    bases = {name: folder.base for name, folder in folders.items()}
    rows = []
    for region in regions():
        without = [
            name
            for name, base in bases.items()
            if isinstance(base, BaseImage) and region not in base.hosts
        ]
        stopped = [
            workload.name for workload in declared if lacking_images([workload], bases, region)
        ]
        rows.append((region, ", ".join(without) or "-", ", ".join(stopped) or "-"))
    for line in aligned([REGION_COLUMNS, *rows]):
        click.echo(line)
