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
Declared = Sequence[tuple[Workload, Path]]


@dataclass(frozen=True)
class Finding:
    """One thing that deployed pipelines need."""

    what: str
    answer: Answer
    sentence: str


def findings(account: Account, workloads: Declared, containers: Path) -> Iterator[Finding]:
    """Images, the quota of their builds, and each workload's default data.

    Raises CredentialsError, and what else keeps every question from being asked.
    """
    images = _statuses(account, workloads, containers)
    if isinstance(images, Finding):
        yield images
    else:
        yield from (_image(status) for status in images)
        yield _builds(account, images)
    for workload, path in workloads:
        yield _data(account, workload, path)


def _statuses(
    account: Account, workloads: Declared, containers: Path
) -> Sequence[ImageStatus] | Finding:
    used = used_images(workload for workload, _ in workloads)
    folders = account.image_folders(containers)
    needed = {name: folder for name, folder in folders.items() if name in used}
    try:
        return read_images(account.session, account.names, needed, used)
    except NotDeployedError as error:
        return Finding("images", "lacks", str(error))
    except AwsError as error:
        return Finding("images", "unknown", str(error))


def _image(status: ImageStatus) -> Finding:
    name = f"image {status.image.name}"
    if status.state == "built":
        return Finding(name, "has", f"{status.image.name}:{status.image.tag} is built")
    why = f"; {status.build.reason}" if status.build is not None and status.build.failed else ""
    todo = "make deploy" if status.state == "stale" else "compilegate aws images --build --wait"
    return Finding(name, "lacks", f"{status.image.name} is {status.state}{why}; {todo}")


def _builds(account: Account, images: Sequence[ImageStatus]) -> Finding:
    """Whether the account's quota lets the images be built; for one that is changed some day, where
    all are there."""
    count = max(1, sum(status.state != "built" for status in images))
    machine = account.names.settings.images.build_machine
    try:
        found = check_builds(machine, count, read_quotas(account.session, "codebuild"))
    except AwsError as error:
        return Finding("builds", "unknown", str(error))
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
    except NotDeployedError as error:
        return Finding(what, "lacks", str(error))
    except AwsError as error:
        return Finding(what, "unknown", str(error))
    if there:
        return Finding(what, "has", f"{uri} is there")
    return Finding(what, "lacks", f"{uri} is not there; compilegate aws upload {workload.name}")
