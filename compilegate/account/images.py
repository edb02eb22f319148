"""The images of a deployment: which are there, what the scans found, and their builds."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError

from compilegate.account.deployed import StackOutputs, read_outputs
from compilegate.account.errors import AwsError, NotDeployedError, absent_allowed, absent_is, asking
from compilegate.account.session import AwsSession
from compilegate.account.settings import Names
from compilegate.account.settings.names import output_suffix
from compilegate.catalog.images import ecr_repository
from compilegate.pipelines.staging import ImageFolder

State = Literal["built", "building", "failed", "missing", "stale", "unused"]
"""`missing` was never built as it is deployed; `stale` was changed since it was deployed; `unused`
is not deployed, and no workload needs it."""

SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "UNDEFINED")

IN_PROGRESS = "IN_PROGRESS"
SUCCEEDED = "SUCCEEDED"

NO_ROOM = "AccountLimitExceededException"
"""What the service answers when more builds are asked for than may run and queue: those that may
run at once, and five times as many in the queue, which for a new account can both be none."""

POLL_SECONDS = 10.0
"""Between two looks at builds that take minutes."""


class NoRoomError(AwsError):
    """The account's quota lets no further build start or queue. It passes, so whoever starts the
    build waits."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """One build as the service describes it."""

    id: str
    status: str
    """`IN_PROGRESS`, `SUCCEEDED`, `FAILED`, `FAULT`, `TIMED_OUT` or `STOPPED`."""
    phase: str
    """What it is at, in the service's word: `PROVISIONING`, `BUILD`, ..."""
    tag: str | None
    """The image tag that it builds; None for a project that does not say."""
    seconds: float | None
    """How long it took; None while it is in progress."""
    log: str | None
    """The page of what it printed; None before it prints anything."""
    reason: str | None
    """Why it failed, in the service's words."""

    @property
    def in_progress(self) -> bool:
        return self.status == IN_PROGRESS

    @property
    def failed(self) -> bool:
        return self.status not in (IN_PROGRESS, SUCCEEDED)


@dataclass(frozen=True, kw_only=True)
class ImageStatus:
    """One image folder, and what the account has of it."""

    image: ImageFolder
    state: State
    project: str | None = None
    """The CodeBuild project; None for a folder that is not deployed yet."""
    deployed_tag: str | None = None
    """What the deployed pipelines use."""
    build: Build | None = None
    """The latest build of this very content."""
    findings: Mapping[str, int] | None = None
    """Vulnerabilities by severity, worst first; None when there is no finished scan."""

    @property
    def obstacle(self) -> str | None:
        """Why its build cannot be started, and what to do; None where it can be."""
        folder = self.image.folder
        if self.state == "unused":
            return "no workload uses it, so it is not built"
        if self.project is None:
            return f"{folder} is not deployed yet; make deploy builds it"
        if self.state != "stale":
            return None
        return f"{folder} has changed since {self.deployed_tag} was deployed; make deploy builds it"


def read_images(
    session: AwsSession,
    names: Names,
    folders: Mapping[str, ImageFolder],
    used: Collection[str],
) -> list[ImageStatus]:
    """What the account has of each folder; `used` are those that workloads need.

    Raises NotDeployedError when the images were never deployed, and AwsError.
    """
    outputs = read_outputs(session, names.images_stack)
    return [_status(session, outputs, image, used=name in used) for name, image in folders.items()]


def unbuilt_images(session: AwsSession, images: Mapping[str, str]) -> list[str]:
    """Which of these are not in their registry; a URI in the account's own by each name.

    Raises AwsError.
    """
    return [
        name
        for name, uri in images.items()
        if (repository := ecr_repository(uri)) is not None
        and not _is_there(session, repository.name, uri.rpartition(":")[2])
    ]


def build_image(session: AwsSession, status: ImageStatus) -> Build:
    """Start the build of an image that is not there; whoever else starts it within five minutes
    gets the same build. Raises NoRoomError where the account's quota lets no further one start,
    AwsError.
    """
    project = status.project
    if project is None:
        raise NotDeployedError(str(status.obstacle))
    after = status.build.id.rpartition(":")[2] if status.build is not None else "first"
    with asking(f"start the build {project}"), absent_is(_no_project(project)):
        try:
            answer = session.client("codebuild").start_build(
                projectName=project, idempotencyToken=f"{status.image.tag}-{after}"[:64]
            )
        except ClientError as error:
            details = error.response.get("Error", {})
            if details.get("Code") != NO_ROOM:
                raise
            raise NoRoomError(
                f"the account's quota lets no further build start ({details.get('Message')}); ask "
                "for more in the Service Quotas console, under AWS CodeBuild"
            ) from error
    return _build(answer["build"])


def follow_builds(
    session: AwsSession,
    builds: Mapping[str, Build],
    waiting: Mapping[str, ImageStatus],
    poll_seconds: float,
) -> Iterator[tuple[str, Build]]:
    """Wait until every build has ended; yields an image's name and its build whenever it reaches
    another phase.

    `builds` is by image; `waiting` are those for whose builds the quota had no room, which are
    tried again until it has. Raises AwsError when AWS cannot be asked any longer; the builds then
    go on.
    """
    now, still = dict(builds), dict(waiting)
    while still or any(build.in_progress for build in now.values()):
        time.sleep(poll_seconds)
        for image, status in list(still.items()):
            try:
                now[image] = build_image(session, status)
            except NoRoomError:
                break
            del still[image]
            yield image, now[image]
        going = {build.id: image for image, build in now.items() if build.in_progress}
        for build in _read(session, list(going)) if going else []:
            image = going[build.id]
            before, now[image] = now[image], build
            if (before.status, before.phase) != (build.status, build.phase):
                yield image, build


def _read(session: AwsSession, ids: list[str]) -> list[Build]:
    with asking("follow the builds"):
        answer = session.client("codebuild").batch_get_builds(ids=ids)
        if answer.get("buildsNotFound"):
            raise AwsError(
                f"cannot follow the builds: {', '.join(answer['buildsNotFound'])} no longer "
                "exists; see what exists with: compilegate aws images"
            )
    return [_build(described) for described in answer["builds"]]


def _status(
    session: AwsSession, outputs: StackOutputs, image: ImageFolder, *, used: bool
) -> ImageStatus:
    suffix = output_suffix(image.name)
    uri = outputs.values.get(f"ImageUri{suffix}")
    if uri is None:
        return ImageStatus(image=image, state="missing" if used else "unused")
    project = outputs[f"BuildProject{suffix}"]
    tag = uri.rpartition(":")[2]
    repository = ecr_repository(uri)
    there = repository is not None and _is_there(session, repository.name, tag)
    build = None if there else _latest_build(session, project)
    if build is not None and build.tag not in (None, image.tag):
        build = None
    return ImageStatus(
        image=image,
        state=_state(changed=tag != image.tag, there=there, build=build),
        project=project,
        deployed_tag=tag,
        build=build,
        findings=_findings(session, repository.name, tag) if repository and there else None,
    )


def _state(*, changed: bool, there: bool, build: Build | None) -> State:
    if changed:
        return "stale"
    if there:
        return "built"
    if build is not None and build.in_progress:
        return "building"
    return "failed" if build is not None and build.failed else "missing"


def _is_there(session: AwsSession, repository: str, tag: str) -> bool:
    with asking(f"look for {repository}:{tag}"), absent_allowed():
        session.client("ecr").describe_images(
            repositoryName=repository, imageIds=[{"imageTag": tag}]
        )
        return True
    return False


def _findings(session: AwsSession, repository: str, tag: str) -> Mapping[str, int] | None:
    """What the scan of an image found; None if it was not scanned, or the scan is still running."""
    answer: Mapping[str, Any] = {}
    with asking(f"read the scan of {repository}:{tag}"), absent_allowed():
        answer = session.client("ecr").describe_image_scan_findings(
            repositoryName=repository, imageId={"imageTag": tag}
        )
    if answer.get("imageScanStatus", {}).get("status") not in ("COMPLETE", "ACTIVE"):
        return None
    counts = answer.get("imageScanFindings", {}).get("findingSeverityCounts", {})
    return {severity: counts[severity] for severity in SEVERITIES if counts.get(severity)}


def _latest_build(session: AwsSession, project: str) -> Build | None:
    """The build of a project that was started last; None when there was none. Raises AwsError."""
    with asking(f"look for builds of {project}"), absent_is(_no_project(project)):
        client = session.client("codebuild")
        ids = client.list_builds_for_project(projectName=project, sortOrder="DESCENDING")["ids"]
        if not ids:
            return None
        return _build(client.batch_get_builds(ids=ids[:1])["builds"][0])


def _no_project(project: str) -> NotDeployedError:
    return NotDeployedError(f"there is no CodeBuild project {project}; deploy it with: make deploy")


def _build(described: Mapping[str, Any]) -> Build:
    variables = described.get("environment", {}).get("environmentVariables", [])
    ended = described.get("endTime")
    return Build(
        id=described["id"],
        status=described["buildStatus"],
        phase=described.get("currentPhase", "SUBMITTED"),
        tag=next((entry["value"] for entry in variables if entry["name"] == "TAG"), None),
        seconds=(ended - described["startTime"]).total_seconds() if ended else None,
        log=described.get("logs", {}).get("deepLink"),
        reason=_reason(described.get("phases", [])),
    )


def _reason(phases: list[Mapping[str, Any]]) -> str | None:
    """What the first phase says that did not succeed."""
    for phase in phases:
        if phase.get("phaseStatus") in (None, SUCCEEDED, IN_PROGRESS):
            continue
        contexts = phase.get("contexts", [])
        said = " ".join(context["message"] for context in contexts if context.get("message"))
        return f"{phase['phaseType'].lower()}: {said or phase['phaseStatus'].lower()}"
    return None
