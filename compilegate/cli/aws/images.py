"""`compilegate aws images`: list the container images, and build the missing ones."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from compilegate.account.base_digests import base_digest
from compilegate.account.errors import AwsError
from compilegate.account.image_builds import POLL_SECONDS, Build, NoRoomError, follow_builds
from compilegate.account.images import ImageStatus, build_image, read_images
from compilegate.account.session import AwsSession
from compilegate.account.settings.pins import LOCK_FILE, read_pins, write_pins
from compilegate.catalog.images import BaseImage, patches_of
from compilegate.cli.aws.executions import poll_seconds
from compilegate.cli.options import Project, json_option, pass_project
from compilegate.cli.places import Account, open_account
from compilegate.cli.terminal.errors import RefusalError, aligned, show_error
from compilegate.cli.terminal.progress import StepLines
from compilegate.execution import exit_codes
from compilegate.pipelines.requests.images import used_images
from compilegate.pipelines.requests.regions import lacking_images, regions
from compilegate.pipelines.staging import ImageFolder, image_folders

COLUMNS = ("IMAGE", "TAG", "STATE", "VULNERABILITIES", "BASE")
REGION_COLUMNS = ("REGION", "IMAGES WITHOUT A BASE THERE", "WORKLOADS THAT CANNOT GO THERE")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options as they were given."""

    build: bool
    wait: bool
    as_json: bool
    by_region: bool
    pin: bool
    missing: bool

    def refuse_what_does_not_go_together(self, names: Sequence[str]) -> None:
        """Refuse options of one form beside another."""
        if self.as_json and (self.build or self.wait):
            raise click.UsageError("--json: found --build or --wait as well, allowed: without them")
        acting = self.build or self.wait or self.as_json
        if self.by_region and (names or acting or self.pin):
            raise click.UsageError("--regions: found more on the command line, allowed: it alone")
        if self.pin and acting:
            raise click.UsageError("--pin: allowed alone or with --missing")
        if self.missing and not self.pin:
            raise click.UsageError("--missing: allowed with --pin")


@click.command("images")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--build", is_flag=True, help="Start the builds of missing images.")
@click.option("--wait", is_flag=True, help="Wait until the builds have ended.")
@json_option
@click.option(
    "--regions",
    "by_region",
    is_flag=True,
    help="List what each region lacks of what the workloads need; AWS is not called.",
)
@click.option(
    "--pin",
    is_flag=True,
    help="Look up what the tags of base images stand for, and write it to images.lock.toml.",
)
@click.option(
    "--missing", is_flag=True, help="With --pin: only for bases that were never looked up."
)
@pass_project
def command(project: Project, names: tuple[str, ...], **given: Any) -> None:
    """List the container images, or those named; build the missing ones.

    \b
      compilegate aws images                    list them
      compilegate aws images --build --wait     build the missing ones, and wait
      compilegate aws images --build training   build one
      compilegate aws images --regions          what each region lacks, from the catalog
      compilegate aws images --pin              take up what AWS has patched, as new images

    An image's tag is a digest of its folder in containers/ and of its base, so a changed folder is
    a new image. "stale" means that the folder has changed since it was deployed; `make deploy`
    builds it. An image that exists or is being built is never built again, and one that no workload
    uses is not built at all ("unused"). A build for which the account's quota has no room waits.
    """
    options = Options(**given)
    options.refuse_what_does_not_go_together(names)
    if options.by_region:
        _list_regions(project)
        return
    account = open_account(project)
    folders = _chosen(names, project.containers, account)
    declared = project.deployed_workloads(account.names.settings)
    used = used_images(workload for workload, _ in declared)
    if options.pin:
        chosen = [folder for name, folder in folders.items() if names or name in used]
        _pin_bases(account, project.settings_file, chosen, only_missing=options.missing)
        return
    images = read_images(account.session, account.names, folders, used)
    _list(images, as_json=options.as_json)
    if options.build or options.wait:
        if options.build and names:
            _refuse_unused(images)
        raise SystemExit(_build(account.session, images, start=options.build, wait=options.wait))


def _list(images: Sequence[ImageStatus], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([_facts(image) for image in images], indent=2))
        return
    table = aligned([COLUMNS, *(_row(image) for image in images)])
    for line in (*table, *_remarks(images)):
        click.echo(line)


def _refuse_unused(images: Sequence[ImageStatus]) -> None:
    if unused := [image.image.name for image in images if image.state == "unused"]:
        raise RefusalError(*(f"no workload uses the image {name}" for name in unused))


def _build(
    session: AwsSession,
    images: Sequence[ImageStatus],
    *,
    start: bool,
    wait: bool,
) -> int:
    """Start what is missing and wait, as asked for; returns the exit status."""
    going = {image.image.name: image.build for image in images if image.state == "building"}
    waiting: dict[str, ImageStatus] = {}
    if start:
        started, waiting = _start(session, images)
        going |= started
    builds = {name: started for name, started in going.items() if started is not None}
    if wait and (builds or waiting):
        return _follow(session, builds, waiting)
    return exit_codes.DECIDED


def _chosen(names: Sequence[str], containers: Path, account: Account) -> Mapping[str, ImageFolder]:
    """The image folders that were named, or all; refuses an unknown name."""
    folders = account.image_folders(containers)
    for name in names:
        if name not in folders:
            known = ", ".join(folders) or "none"
            raise click.UsageError(f"{containers} has no image folder {name!r}; it has {known}")
    return {name: folders[name] for name in names or folders}


def _start(
    session: AwsSession, images: Sequence[ImageStatus]
) -> tuple[dict[str, Build], dict[str, ImageStatus]]:
    """Start the builds of missing images; returns those, and the images that wait for room in the
    account's quota. First refuses stale ones."""
    needed = [image for image in images if image.state != "unused"]
    stale = [image for image in needed if image.state == "stale" or image.project is None]
    if stale:
        raise RefusalError(
            *(
                f"{image.image.folder} has changed since it was deployed, so its build would make "
                "the old image; to deploy and build it: make deploy"
                if image.project is not None
                else f"{image.image.folder} is not deployed yet; to deploy and build it: "
                "make deploy"
                for image in stale
            )
        )
    started: dict[str, Build] = {}
    waiting: dict[str, ImageStatus] = {}
    for image in needed:
        if image.state not in ("missing", "failed"):
            continue
        name = image.image.name
        try:
            build = started[name] = build_image(session, image)
        except NoRoomError as error:
            waiting[name] = image
            click.echo(f"{name}: waits, because {error}")
        else:
            click.echo(f"{name}: build {build.id} started")
    if not started and not waiting:
        click.echo("nothing to build")
    return started, waiting


def _follow(
    session: AwsSession,
    builds: Mapping[str, Build],
    waiting: Mapping[str, ImageStatus],
) -> int:
    """Report on the builds until they end; returns the exit status."""
    lines, began = StepLines(), time.monotonic()

    def show(image: str, build: Build) -> None:
        lines.show(time.monotonic() - began, image, _progress(build))

    try:
        ended = follow_builds(
            session,
            builds,
            show,
            poll_seconds(POLL_SECONDS),
            waiting={name: partial(build_image, session, image) for name, image in waiting.items()},
        )
    except KeyboardInterrupt:
        click.echo(
            "\nno longer watching; the builds continue: compilegate aws images --wait", err=True
        )
        return exit_codes.INTERRUPTED
    except AwsError as error:
        show_error(f"{error}; the builds continue: compilegate aws images --wait")
        return exit_codes.LOST
    for image, build in ended.items():
        if build.failed:
            show_error(f"{image}: {_why(build)}")
    failed = any(build.failed for build in ended.values())
    return exit_codes.STEP_FAILED if failed else exit_codes.DECIDED


def _progress(build: Build) -> str:
    if build.in_progress:
        return build.phase.lower().replace("_", " ")
    seconds = f" after {build.seconds:.0f} s" if build.seconds is not None else ""
    return f"{build.status.lower().replace('_', ' ')}{seconds}"


def _why(build: Build) -> str:
    """Why a build failed, and where its log is."""
    reason = build.reason or build.status.lower().replace("_", " ")
    return f"build {build.id} failed: {reason}" + (f"\n  log: {build.log}" if build.log else "")


def _remarks(images: Sequence[ImageStatus]) -> list[str]:
    """Remarks for which the table has no room."""
    today = datetime.datetime.now(datetime.UTC).date()
    remarks = []
    for status in images:
        image = status.image
        if status.state == "unused":
            remarks.append(f"{image.name}: no workload uses it, so it is not built")
            continue
        if status.project is None:
            remarks.append(f"{image.name}: not deployed yet; make deploy builds it")
        elif status.state == "stale":
            remarks.append(
                f"{image.name}: {image.folder} has changed since {status.deployed_tag} was "
                "deployed; make deploy builds it"
            )
        elif status.build is not None and status.state == "failed":
            remarks.append(f"{image.name}: {_why(status.build)}")
        patches = patches_of(image.base) if isinstance(image.base, BaseImage) else None
        if patches is not None and patches.ended(today):
            since = f" (since {patches.until})" if patches.until else ""
            remarks.append(f"{image.name}: AWS no longer patches its base{since}")
    return remarks


def _row(status: ImageStatus) -> tuple[str, ...]:
    image = status.image
    return (image.name, image.tag, status.state, _vulnerabilities(status), image.base_name)


def _facts(status: ImageStatus) -> dict[str, Any]:
    image, build = status.image, status.build
    return {
        "image": image.name,
        "tag": image.tag,
        "state": status.state,
        "deployed_tag": status.deployed_tag,
        "base": image.base_name,
        "vulnerabilities": None if status.findings is None else dict(status.findings),
        "build": None if build is None else dataclasses.asdict(build),
    }


def _vulnerabilities(status: ImageStatus) -> str:
    if status.findings is None:
        return "not scanned" if status.state == "built" else "-"
    counts = [f"{count} {severity.lower()}" for severity, count in status.findings.items()]
    return ", ".join(counts) or "none"


def _pin_bases(
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
                f"{error}; where it can be asked, compilegate aws images --pin writes "
                f"{settings.with_name(LOCK_FILE)}, which is to be committed"
            ) from error
        was = before.get(base)
        said = "as before" if was == after[base] else "new" if was is None else f"was {was}"
        click.echo(f"{base} is {after[base]} ({said})")
    if after == before:
        return
    path = write_pins(settings, after)
    click.echo(f"{path} is written; commit it, and make deploy builds what has changed", err=True)


def _list_regions(project: Project) -> None:
    """A row for each region: which image folders cannot be built there, and whom that stops."""
    settings = project.settings
    declared = [workload for workload, _ in project.deployed_workloads(settings)]
    folders = image_folders(project.containers, settings.images.base, settings.images.pinned)
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
