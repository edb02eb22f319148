"""`compilegate aws images`: list the container images, and build the missing ones.

And for `doctor --aws`: what the account has and lacks of images, builds and data.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click

from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.images import (
    POLL_SECONDS,
    Build,
    ImageStatus,
    base_digest,
    follow_builds,
    read_images,
    start_builds,
)
from compilegate.account.object_store import is_staged
from compilegate.account.plan.quotas import QuotaAnswer, check_builds, read_quotas
from compilegate.account.session import AwsSession
from compilegate.account.settings.pins import LOCK_FILE, read_pins, write_pins
from compilegate.catalog.images import BaseImage, patches_of
from compilegate.cli.aws.executions import poll_seconds
from compilegate.cli.options import Project, json_option, pass_project, refuse_given
from compilegate.cli.places import Account, open_account
from compilegate.cli.terminal.errors import RefusalError, aligned, refusing_os_errors, show_error
from compilegate.cli.terminal.progress import StepLines
from compilegate.datasets import raw_data
from compilegate.execution import exit_codes
from compilegate.pipelines.images import (
    ImageFolder,
    image_folders,
    lacking_images,
    regions,
    used_images,
)
from compilegate.pipelines.staging.placement import raw_data_uri
from compilegate.workload import Workload

COLUMNS = ("IMAGE", "TAG", "STATE", "VULNERABILITIES", "BASE")
REGION_COLUMNS = ("REGION", "IMAGES WITHOUT A BASE THERE", "WORKLOADS THAT CANNOT GO THERE")


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
def command(
    project: Project,
    names: tuple[str, ...],
    *,
    build: bool,
    wait: bool,
    as_json: bool,
    by_region: bool,
    pin: bool,
    missing: bool,
) -> None:
    """List the container images, or those named; build the missing ones.

    \b
      compilegate aws images                    list them
      compilegate aws images --build --wait     build the missing ones, and wait
      compilegate aws images --build training   build one
      compilegate aws images --regions          what each region lacks, from the catalog
      compilegate aws images --pin              take up what AWS has patched, as new images

    An image's tag is a digest of its folder in containers/ and of its base, so a changed folder is
    a new image. "stale" means that the folder is not deployed as it is now; `make deploy` builds
    it, as it builds all that are missing. An image that exists or is being built is never built
    again, and one that no workload uses is not built at all ("unused").
    """
    modes = {"--regions": by_region, "--json": as_json, "--pin": pin}
    for mode in [option for option, given in modes.items() if given]:
        refuse_given({*modes, "--build", "--wait"} - {mode}, f"does not go with {mode}")
    refuse_given(["NAME"] if by_region else [], "does not go with --regions")
    refuse_given([] if pin else ["--missing"], "needs --pin")
    if by_region:
        _list_regions(project)
        return
    account = open_account(project)
    folders = _chosen(names, project.containers, account)
    declared = project.deployed_workloads(account.names.settings)
    used = used_images(workload for workload, _ in declared)
    if pin:
        chosen = [folder for name, folder in folders.items() if names or name in used]
        _pin_bases(account, project.settings_file, chosen, only_missing=missing)
        return
    images = read_images(account.session, account.names, folders, used)
    if as_json:
        click.echo(json.dumps([_facts(image) for image in images], indent=2))
        return
    moved = () if build or wait else _moved_bases(account.session, images)
    for line in (*aligned([COLUMNS, *map(_row, images)]), *_remarks(images), *moved):
        click.echo(line)
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


def _chosen(names: Sequence[str], containers: Path, account: Account) -> Mapping[str, ImageFolder]:
    """The image folders that were named, or all; refuses an unknown name."""
    folders = account.image_folders(containers)
    for name in names:
        if name not in folders:
            known = ", ".join(folders) or "none"
            raise click.UsageError(f"{containers} has no image folder {name!r}; it has {known}")
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
            found = _quota(account, len(waiting))
            if found.answer == "forbids":
                raise RefusalError(f"{found.sentence}; then run this again")
        click.echo(f"{', '.join(waiting)}: waiting for room in the account's quota of builds")
    return started, waiting


def _quota(account: Account, builds: int) -> QuotaAnswer:
    machine = account.names.settings.images.build_machine
    return check_builds(machine, builds, read_quotas(account.session, "codebuild"))


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
        click.echo(
            "\nstopped watching; the builds continue, watch them with: compilegate "
            "aws images --wait",
            err=True,
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


def _moved_bases(session: AwsSession, images: Sequence[ImageStatus]) -> Iterator[str]:
    """Whether the tags of pinned bases stand for other images by now."""
    bases = {each.image.base_name: each.image for each in images if each.used and each.image.digest}
    for base, image in bases.items():
        try:
            digest = base_digest(session, image)
        except AwsError as error:
            yield f"{base}: {error}"
            continue
        if digest != image.digest:
            yield f"{base}: has moved; take it up with: compilegate aws images --pin"


def _row(status: ImageStatus) -> tuple[str, ...]:
    image = status.image
    if status.findings is None:
        found = "not scanned" if status.state == "built" else "-"
    else:
        counts = [f"{count} {severity.lower()}" for severity, count in status.findings.items()]
        found = ", ".join(counts) or "none"
    return (image.name, image.tag, status.state, found, image.base_name)


def _facts(status: ImageStatus) -> dict[str, Any]:
    image, build = status.image, status.build
    return {
        "image": image.name,
        "tag": image.tag,
        "state": status.state,
        "deployed_tag": status.variables.get("TAG"),
        "base": image.base_name,
        "vulnerabilities": None if status.findings is None else dict(status.findings),
        "build": None if build is None else asdict(build),
    }


def _pin_bases(
    account: Account, settings: Path, images: Sequence[ImageFolder], *, only_missing: bool
) -> None:
    """Look up each base's digest, and write those that are new."""
    before = read_pins(settings)
    after = dict(before)
    by_base = {image.base_name: image for image in images if "@" not in image.base_name}
    for base, image in by_base.items():
        if only_missing and base in before:
            continue
        try:
            after[base] = base_digest(account.session, image)
        except AwsError as error:
            raise RefusalError(
                f"{error}; where it can be asked, compilegate aws images --pin writes "
                f"{settings.with_name(LOCK_FILE)}, which is to be committed"
            ) from error
        was = before.get(base)
        said = "unchanged" if was == after[base] else "new" if was is None else f"was {was}"
        click.echo(f"{base} is {after[base]} ({said})")
    if after != before:
        click.echo(
            f"{write_pins(settings, after)} is written; commit it, and make deploy builds what has "
            "changed",
            err=True,
        )


def _list_regions(project: Project) -> None:
    """A row for each region: which image folders cannot be built there, and whom that stops."""
    settings = project.settings
    declared = [workload for workload, _ in project.deployed_workloads(settings)]
    folders = image_folders(project.containers, settings.images.base, settings.images.pinned)
    bases = {name: folder.base for name, folder in folders.items()}
    rows = [REGION_COLUMNS]
    for region in regions():
        without = [
            name
            for name, base in bases.items()
            if isinstance(base, BaseImage) and region not in base.hosts
        ]
        stopped = [each.name for each in declared if lacking_images([each], bases, region)]
        rows.append((region, ", ".join(without) or "-", ", ".join(stopped) or "-"))
    for line in aligned(rows):
        click.echo(line)


Answer = Literal["has", "lacks", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One thing that deployed pipelines need."""

    what: str
    answer: Answer
    sentence: str


def findings(
    account: Account, workloads: Sequence[tuple[Workload, Path]], containers: Path
) -> Iterator[Finding]:
    """Images, the quota of their builds, and each workload's default data."""
    used = used_images(workload for workload, _ in workloads)
    folders = account.image_folders(containers)
    needed = {name: folder for name, folder in folders.items() if name in used}
    try:
        images = read_images(account.session, account.names, needed, used)
    except AwsError as error:
        yield _unanswered("images", error)
    else:
        yield from map(_image, images)
        yield _builds(account, images)
    for workload, path in workloads:
        yield _data(account, workload, path)


def _unanswered(what: str, error: AwsError) -> Finding:
    return Finding(what, "lacks" if isinstance(error, NotDeployedError) else "unknown", str(error))


def _image(status: ImageStatus) -> Finding:
    name, state = status.image.name, status.state
    if state == "built":
        return Finding(f"image {name}", "has", f"{name}:{status.image.tag} is built")
    why = f": {status.build.reason}" if status.build is not None and state == "failed" else ""
    missing = f"{name} is {state}{why}; compilegate aws images --build --wait"
    return Finding(f"image {name}", "lacks", status.obstacle or missing)


def _builds(account: Account, images: Sequence[ImageStatus]) -> Finding:
    """Whether the account's quota lets the images be built; for one that is changed some day, where
    all are there."""
    try:
        found = _quota(account, max(1, sum(status.state != "built" for status in images)))
    except AwsError as error:
        return _unanswered("builds", error)
    answers: dict[str, Answer] = {"forbids": "lacks", "unknown": "unknown"}
    return Finding("builds", answers.get(found.answer, "has"), found.sentence)


def _data(account: Account, workload: Workload, path: Path) -> Finding:
    """Whether what a scheduled start trains on lies in the bucket."""
    what = f"data {workload.name}"
    try:
        with refusing_os_errors():
            data = raw_data(workload.data, path.parent)
            uri = raw_data_uri(workload, data, account.bucket)
            there = is_staged(account.session, data, uri)
    except AwsError as error:
        return _unanswered(what, error)
    if there:
        return Finding(what, "has", f"{uri} is there")
    return Finding(what, "lacks", f"{uri} is not there; compilegate aws upload {workload.name}")
