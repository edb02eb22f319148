"""Builds of images in CodeBuild: the latest one, a new one, and following them to their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from compilegate.account.errors import (
    AwsError,
    NotDeployedError,
    RefusedRequestError,
    absent_is,
    asking,
)
from compilegate.account.session import AwsSession

IN_PROGRESS = "IN_PROGRESS"
SUCCEEDED = "SUCCEEDED"

NO_ROOM = "AccountLimitExceededException"
"""What the service answers when more builds are asked for than may run and queue: those that may
run at once, and five times as many in the queue, which for a new account can both be none."""

POLL_SECONDS = 10.0
"""Between two looks at builds that take minutes."""


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


def latest_build(session: AwsSession, project: str) -> Build | None:
    """The build of a project that was started last; None when there was none. Raises AwsError."""
    with asking(f"look for builds of {project}"), absent_is(_no_project(project)):
        client = session.client("codebuild")
        ids = client.list_builds_for_project(projectName=project, sortOrder="DESCENDING")["ids"]
        if not ids:
            return None
        return _build(client.batch_get_builds(ids=ids[:1])["builds"][0])


class NoRoomError(AwsError):
    """The account's quota lets no further build start or queue. It passes, so whoever starts the
    build waits."""


def start_build(session: AwsSession, project: str, token: str) -> Build:
    """Start a build; twice with one token within five minutes is one build.

    Raises NoRoomError where the account's quota lets no further one start, AwsError.
    """
    with asking(f"start the build {project}"), absent_is(_no_project(project)):
        try:
            answer = session.client("codebuild").start_build(
                projectName=project, idempotencyToken=token
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
    listener: Callable[[str, Build], None],
    poll_seconds: float = POLL_SECONDS,
    *,
    waiting: Mapping[str, Callable[[], Build]] | None = None,
) -> dict[str, Build]:
    """Wait until every build has ended; returns them as they ended.

    `builds` is by image. The listener is told whenever one reaches another phase. `waiting` starts
    the builds for which the quota had no room; each is tried again until it has.
    Raises AwsError when AWS cannot be asked any longer; the builds then go on.
    """
    now, still = dict(builds), dict(waiting or {})
    while still or any(build.in_progress for build in now.values()):
        time.sleep(poll_seconds)
        for image, start in list(still.items()):
            try:
                now[image] = start()
            except NoRoomError:
                break
            del still[image]
            listener(image, now[image])
        going = {build.id: image for image, build in now.items() if build.in_progress}
        for build in _read(session, list(going)) if going else []:
            image = going[build.id]
            before, now[image] = now[image], build
            if (before.status, before.phase) != (build.status, build.phase):
                listener(image, build)
    return now


def _read(session: AwsSession, ids: list[str]) -> list[Build]:
    with asking("follow the builds"):
        answer = session.client("codebuild").batch_get_builds(ids=ids)
        if answer.get("buildsNotFound"):
            raise RefusedRequestError(
                f"cannot follow the builds: {', '.join(answer['buildsNotFound'])} no longer "
                "exists; see what exists with: compilegate aws images"
            )
    return [_build(described) for described in answer["builds"]]


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
