"""CodeBuild's projects and builds, and the images that they leave in ECR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

NO_ROOM = "AccountLimitExceededException"
NOT_THERE = ("ImageNotFoundException", "RepositoryNotFoundException")
VARIABLES = ("REPOSITORY", "TAG", "BASE_IMAGE", "BASE_NAME")
"""What a build's project says of its image."""
MOST_ASKED = 100
"""Projects that one request may name."""


class NoRoomError(Exception):
    """The account's quota lets no further build start; the message is the service's."""


@dataclass(frozen=True)
class Project:
    """One CodeBuild project, and the image that it is to make."""

    name: str
    repository: str
    tag: str
    base_image: str
    """What it is built from, by digest where that is known."""
    base_name: str
    """The same by its tag; empty where its digest is not known."""

    @property
    def image(self) -> str:
        """The image's folder."""
        return self.repository.rpartition("/")[2]


@dataclass(frozen=True)
class Build:
    """One build as the service describes it."""

    id: str
    project: str
    status: str
    tag: str | None
    log: str | None
    reason: str
    queued_out: bool
    """Whether it was dropped from the queue before it began."""

    @property
    def in_progress(self) -> bool:
        return self.status == "IN_PROGRESS"


@dataclass(frozen=True)
class CodeBuild:
    """Asks CodeBuild and ECR, through boto3 clients."""

    codebuild: Any
    ecr: Any

    def projects(self, names: tuple[str, ...]) -> list[Project]:
        """Each project, with the image that its variables name."""
        found = []
        for first in range(0, len(names), MOST_ASKED):
            answer = self.codebuild.batch_get_projects(names=names[first : first + MOST_ASKED])
            for described in answer["projects"]:
                variables = _variables(described)
                image = (variables.get(name, "") for name in VARIABLES)
                found.append(Project(described["name"], *image))
        return found

    def is_built(self, project: Project) -> bool:
        """Whether the image exists."""
        try:
            self.ecr.describe_images(
                repositoryName=project.repository, imageIds=[{"imageTag": project.tag}]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in NOT_THERE:
                return False
            raise
        return True

    def latest(self, project: Project) -> Build | None:
        """The project's latest build, if it is of this very image."""
        ids = self.codebuild.list_builds_for_project(
            projectName=project.name, sortOrder="DESCENDING"
        )["ids"]
        build = self.build(ids[0]) if ids else None
        return build if build is not None and build.tag == project.tag else None

    def build(self, id: str) -> Build | None:
        """One build; None if the service no longer knows it."""
        described = self.codebuild.batch_get_builds(ids=[id])["builds"]
        return _build(described[0]) if described else None

    def start(self, project: Project, after: str) -> None:
        """Start a build; once for each build that it comes after, however often it is asked for.

        Raises NoRoomError.
        """
        try:
            self.codebuild.start_build(
                projectName=project.name, idempotencyToken=f"{project.tag}-{after}"[:64]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != NO_ROOM:
                raise
            raise NoRoomError(error.response["Error"].get("Message", NO_ROOM)) from error


def _build(described: Mapping[str, Any]) -> Build:
    phases = described.get("phases", [])
    return Build(
        id=described["id"],
        project=described["projectName"],
        status=described["buildStatus"],
        tag=_variables(described).get("TAG"),
        log=described.get("logs", {}).get("deepLink"),
        reason=_reason(phases) or described["buildStatus"].lower().replace("_", " "),
        queued_out=any(
            phase["phaseType"] == "QUEUED" and phase.get("phaseStatus") == "TIMED_OUT"
            for phase in phases
        ),
    )


def _variables(described: Mapping[str, Any]) -> dict[str, str]:
    entries = described.get("environment", {}).get("environmentVariables", [])
    return {entry["name"]: entry["value"] for entry in entries}


def _reason(phases: list[Mapping[str, Any]]) -> str | None:
    """What the first phase says that did not succeed."""
    for phase in phases:
        if phase.get("phaseStatus") in (None, "SUCCEEDED", "IN_PROGRESS"):
            continue
        said = " ".join(
            each["message"] for each in phase.get("contexts", []) if each.get("message")
        )
        return f"{phase['phaseType'].lower()}: {said or phase['phaseStatus'].lower()}"
    return None
