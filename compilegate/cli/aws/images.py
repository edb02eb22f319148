"""`compilegate aws images`: list the container images, build the missing ones, pin their bases."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import click

from compilegate.account.errors import AwsError
from compilegate.account.images import (
    POLL_SECONDS,
    Build,
    ImageStatus,
    base_digest,
    follow_builds,
    read_images,
    start_builds,
)
from compilegate.account.plan.quotas import check_builds, read_quotas
from compilegate.account.session import AwsSession
from compilegate.account.settings.pins import LOCK_FILE, read_pins, write_pins
from compilegate.catalog.images import BaseImage, patches_of
from compilegate.cli import options
from compilegate.cli.aws.executions import poll_seconds
from compilegate.cli.definitions import project_images
from compilegate.cli.options import Project, pass_project, refuse_given
from compilegate.cli.places import Account, open_account
from compilegate.cli.printing import RefusalError, announce, print_json, print_table, show_error
from compilegate.cli.progress import StepLines
from compilegate.execution import exit_codes
from compilegate.pipelines.images import ImageFolder, used_images

COLUMNS = ("IMAGE", "TAG", "STATE", "VULNERABILITIES", "BASE")


@click.command("images")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--build", is_flag=True, help="Start the builds of missing images.")
@click.option("--wait", is_flag=True, help="Wait until the builds have ended.")
@options.as_json
@click.option(
    "--pin",
    is_flag=True,
    help="Look up what the tags of base images stand for, and write it to images.lock.toml.",
)
@click.option(
    "--missing", is_flag=True, help="With --pin: only for bases that were never looked up."
)
@pass_project
def command(
    project: Project,
    names: tuple[str, ...],
    *,
    build: bool,
    wait: bool,
    as_json: bool,
    pin: bool,
    missing: bool,
) -> None:
    """List the container images, or those named; build the missing ones.

    \b
      compilegate aws images                    list them
      compilegate aws images --build --wait     build the missing ones, and wait
      compilegate aws images --build training   build one
      compilegate aws images --pin              take up what AWS has patched, as new images

    An image's tag is a digest of its folder in containers/ and of its base, so a changed folder is
    a new image. "stale" means that the folder is not deployed as it is now; `make deploy` builds
    it, as it builds all that are missing. An image that exists or is being built is never built
    again, and one that no workload uses is not built at all ("unused").
    """
    for mode, chosen in (("--json", as_json), ("--pin", pin)):
        if chosen:
            others = {"--json", "--pin", "--build", "--wait"} - {mode}
            refuse_given(others, f"does not go with {mode}")
    refuse_given([] if pin else ["--missing"], "needs --pin")
    account = open_account(project)
    folders = _image_folders(project, names)
    declared = project.deployed_workloads(account.names.settings)
    used = used_images(workload for workload, _ in declared)
    if pin:
        bases = [folder for name, folder in folders.items() if names or name in used]
        _pin_bases(project, account.session, bases, only_missing=missing)
        return
    images = read_images(account.session, account.names, folders, used)
    if as_json:
        print_json([_facts(image) for image in images])
        return
    print_table([COLUMNS, *map(_row, images)])
    for remark in _remarks(images):
        click.echo(remark)
    if not (build or wait):
        _report_moved_bases(account.session, images)
    builds = {
        each.image.name: each.build for each in images if each.build and each.state == "building"
    }
    waiting: dict[str, ImageStatus] = {}
    if build:
        # What no workload uses is refused where it was named, and left out where it was not.
        wanted = [image for image in images if names or image.state != "unused"]
        started, waiting = _start(account, wanted)
        builds |= started
    if wait and (builds or waiting):
        raise SystemExit(_follow(account.session, builds, waiting))


def _image_folders(project: Project, names: Sequence[str]) -> dict[str, ImageFolder]:
    """The image folders that were named, or all; refuses an unknown name."""
    folders = project_images(project)
    for name in names:
        if name not in folders:
            known = ", ".join(folders) or "none"
            raise click.UsageError(
                f"{project.containers} has no image folder {name!r}; it has {known}"
            )
    return {name: folders[name] for name in names or folders}


def _start(
    account: Account, images: Sequence[ImageStatus]
) -> tuple[dict[str, Build], dict[str, ImageStatus]]:
    """Start the builds of missing images; returns those, and the images that wait for room in the
    account's quota. Refuses first what cannot be built."""
    if obstacles := [f"{each.image.name}: {each.obstacle}" for each in images if each.obstacle]:
        raise RefusalError(*obstacles)
    waiting = {each.image.name: each for each in images if each.state in ("missing", "failed")}
    if not waiting:
        click.echo("nothing to build")
    started: dict[str, Build] = {}
    for name, build in start_builds(account.session, waiting):
        started[name] = build
        click.echo(f"{name}: build {build.id} started")
    if waiting:
        # Not for a quota of none, as a new account can have. One that cannot be read may have room.
        with suppress(AwsError):
            quotas = read_quotas(account.session, "codebuild")
            machine = account.names.settings.images.build_machine
            found = check_builds(machine, len(waiting), quotas)
            if found.answer == "forbids":
                raise RefusalError(f"{found.sentence}; then run this again")
        click.echo(f"{', '.join(waiting)}: waiting for room in the account's quota of builds")
    return started, waiting


def _follow(
    session: AwsSession, builds: Mapping[str, Build], waiting: Mapping[str, ImageStatus]
) -> int:
    """Report on the builds until they end; returns the exit status."""
    lines, began, latest = StepLines(), time.monotonic(), dict(builds)
    try:
        for image, build in follow_builds(session, builds, waiting, poll_seconds(POLL_SECONDS)):
            latest[image] = build
            text = (build.phase if build.in_progress else build.status).lower().replace("_", " ")
            seconds = "" if build.seconds is None else f" after {build.seconds:.0f} s"
            lines.show(time.monotonic() - began, image, f"{text}{seconds}")
    except KeyboardInterrupt:
        announce(
            "\nstopped watching; the builds continue, watch them with: compilegate "
            "aws images --wait"
        )
        return exit_codes.INTERRUPTED
    except AwsError as error:
        show_error(f"{error}; the builds continue: compilegate aws images --wait")
        return exit_codes.LOST
    failed = {image: build for image, build in latest.items() if build.failed}
    for image, build in failed.items():
        show_error(f"{image}: {_why(build)}")
    return exit_codes.STEP_FAILED if failed else exit_codes.DECIDED


def _why(build: Build) -> str:
    """Why a build failed, and where its log is."""
    reason = build.reason or build.status.lower().replace("_", " ")
    return f"build {build.id} failed: {reason}" + (f"\n  log: {build.log}" if build.log else "")


def _remarks(images: Sequence[ImageStatus]) -> Iterator[str]:
    """Remarks for which the table has no room."""
    today = datetime.datetime.now(datetime.UTC).date()
    for status in images:
        image = status.image
        if status.obstacle is not None:
            yield f"{image.name}: {status.obstacle}"
        elif status.build is not None and status.state == "failed":
            yield f"{image.name}: {_why(status.build)}"
        patches = patches_of(image.base) if isinstance(image.base, BaseImage) else None
        if status.state != "unused" and patches is not None and patches.ended(today):
            since = f" (since {patches.until})" if patches.until else ""
            yield f"{image.name}: AWS no longer patches its base{since}"


def _report_moved_bases(session: AwsSession, images: Sequence[ImageStatus]) -> None:
    """Print which tags of pinned bases stand for other images by now."""
    bases = {each.image.base_name: each.image for each in images if each.used and each.image.digest}
    for base, image in bases.items():
        try:
            if base_digest(session, image) != image.digest:
                click.echo(f"{base}: has moved; take it up with: compilegate aws images --pin")
        except AwsError as error:
            click.echo(f"{base}: {error}")


def _row(status: ImageStatus) -> tuple[str, ...]:
    image = status.image
    if status.findings is None:
        found = "not scanned" if status.state == "built" else "-"
    else:
        counts = [f"{count} {severity.lower()}" for severity, count in status.findings.items()]
        found = ", ".join(counts) or "none"
    return (image.name, image.tag, status.state, found, image.base_name)


def _facts(status: ImageStatus) -> dict[str, Any]:
    return {
        "image": status.image.name,
        "tag": status.image.tag,
        "state": status.state,
        "deployed_tag": status.variables.get("TAG"),
        "base": status.image.base_name,
        "vulnerabilities": None if status.findings is None else dict(status.findings),
        "build": None if status.build is None else asdict(status.build),
    }


def _pin_bases(
    project: Project, session: AwsSession, images: Sequence[ImageFolder], *, only_missing: bool
) -> None:
    """Look up each base's digest, and write those that are new."""
    lock = project.settings_file.with_name(LOCK_FILE)
    before = read_pins(project.settings_file)
    after = dict(before)
    bases = {image.base_name: image for image in images if "@" not in image.base_name}
    for base, image in bases.items():
        if only_missing and base in before:
            continue
        try:
            after[base] = base_digest(session, image)
        except AwsError as error:
            raise RefusalError(
                f"{error}; where it can be asked, compilegate aws images --pin writes {lock}, "
                "which is to be committed"
            ) from error
        was = before.get(base)
        change = "unchanged" if was == after[base] else "new" if was is None else f"was {was}"
        click.echo(f"{base} is {after[base]} ({change})")
    if after != before:
        write_pins(project.settings_file, after)
        announce(f"{lock} is written; commit it, and make deploy builds what has changed")
