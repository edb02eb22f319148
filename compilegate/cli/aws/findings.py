"""What the account has and lacks for what is deployed from a project: for `doctor --aws`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.images import ImageStatus, read_images
from compilegate.account.object_store import is_staged
from compilegate.account.plan.quotas import check_builds, read_quotas
from compilegate.cli.places import Account
from compilegate.cli.terminal.errors import refusing_os_errors
from compilegate.datasets import raw_data
from compilegate.pipelines.requests.images import used_images
from compilegate.pipelines.staging import raw_data_uri
from compilegate.workload import Workload

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
    image = status.image
    if status.state == "built":
        return Finding(f"image {image.name}", "has", f"{image.name}:{image.tag} is built")
    why = f": {status.build.reason}" if status.build is not None and status.build.failed else ""
    missing = f"{image.name} is {status.state}{why}; compilegate aws images --build --wait"
    return Finding(f"image {image.name}", "lacks", status.obstacle or missing)


def _builds(account: Account, images: Sequence[ImageStatus]) -> Finding:
    """Whether the account's quota lets the images be built; for one that is changed some day, where
    all are there."""
    count = max(1, sum(status.state != "built" for status in images))
    machine = account.names.settings.images.build_machine
    try:
        found = check_builds(machine, count, read_quotas(account.session, "codebuild"))
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
