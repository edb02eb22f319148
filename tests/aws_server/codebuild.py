"""Builds of CodeBuild, which go through the frames of a script; moto's succeed at once.

The account's quota lets so many builds run and five times as many queue; any further start is
refused, as AWS documents it.

A frame is `{"status": "IN_PROGRESS", "phase": "BUILD"}`, `{"status": "FAILED", "message": "why"}`
or `{"status": "SUCCEEDED"}`, which pushes the image that the build's variables name. Each
BatchGetBuilds moves a build to its next frame, and the last one stays. The projects are moto's;
builds of a repository without a script succeed at the second look.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from moto.codebuild.models import codebuild_backends
from moto.ecr.models import ecr_backends

from tests.aws_server.accounts import ServiceError

Request = dict[str, Any]
BUILDS = "Concurrently running builds"
MEDIUM = f"{BUILDS} for Linux/Medium environment"
"""The quota of the machine that every project of the tests builds on."""
QUEUED_FOR_EACH = 5
QUEUED = {"status": "IN_PROGRESS", "phase": "QUEUED"}
SUCCESS = ({"status": "IN_PROGRESS", "phase": "BUILD"}, {"status": "SUCCEEDED"})


@dataclass
class Build:
    """One build and its position in its script."""

    id: str
    project: str
    region: str
    token: str | None
    variables: dict[str, str]
    frames: list[dict[str, Any]]
    position: int = -1

    @property
    def frame(self) -> dict[str, Any]:
        return QUEUED if self.position < 0 else self.frames[self.position]

    @property
    def ended(self) -> bool:
        return self.frame["status"] != "IN_PROGRESS"

    def describe(self) -> dict[str, Any]:
        frame = self.frame
        variables = [{"name": name, "value": value} for name, value in self.variables.items()]
        described = {
            "id": self.id,
            "projectName": self.project,
            "buildStatus": frame["status"],
            "currentPhase": "COMPLETED" if self.ended else frame["phase"],
            "startTime": 1_000_000_000,
            "environment": {"environmentVariables": variables},
            "logs": {"deepLink": f"https://console.aws.amazon.com/cloudwatch/#{self.id}"},
            "phases": [{"phaseType": "QUEUED", "phaseStatus": "SUCCEEDED"}],
        }
        if self.ended:
            described["endTime"] = 1_000_000_090
        if "message" in frame:
            contexts = [{"statusCode": "X", "message": frame["message"]}]
            described["phases"].append(
                {"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": contexts}
            )
        return described


@dataclass
class CodeBuild:
    """The operations of one account, named as boto3 names them."""

    account: str
    quotas: dict[str, float]
    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Frames by repository."""
    started: dict[str, Build] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def start_build(self, request: Request, region: str) -> dict[str, Any]:
        project = self._project(request["projectName"], region)
        token = request.get("idempotencyToken")
        for build in self.started.values():
            if token is not None and build.token == token:
                return {"build": build.describe()}
        self._check_room()
        own = project["environment"].get("environmentVariables", [])
        entries = [*own, *request.get("environmentVariablesOverride", [])]
        variables = {entry["name"]: entry["value"] for entry in entries}
        build = Build(
            id=f"{project['name']}:build{next(self._numbers):03d}",
            project=project["name"],
            region=region,
            token=token,
            variables=variables,
            frames=list(self.scripts.get(variables["REPOSITORY"], SUCCESS)),
        )
        self.started[build.id] = build
        return {"build": build.describe()}

    def batch_get_builds(self, request: Request, _region: str) -> dict[str, Any]:
        found = [self.started[id] for id in request["ids"] if id in self.started]
        for build in found:
            before = build.position
            build.position = min(before + 1, len(build.frames) - 1)
            if build.position != before and build.frame["status"] == "SUCCEEDED":
                self._push(build)
        return {
            "builds": [build.describe() for build in found],
            "buildsNotFound": [id for id in request["ids"] if id not in self.started],
        }

    def list_builds_for_project(self, request: Request, region: str) -> dict[str, Any]:
        name = self._project(request["projectName"], region)["name"]
        ids = [build.id for build in self.started.values() if build.project == name]
        return {"ids": ids[::-1] if request.get("sortOrder") == "DESCENDING" else ids}

    def _check_room(self) -> None:
        """Raises ServiceError when the account's quota, where it has one, has no room."""
        running = self.quotas.get(MEDIUM)
        waiting = sum(not build.ended for build in self.started.values())
        if running is not None and waiting >= running + (queued := QUEUED_FOR_EACH * running):
            raise ServiceError(
                "AccountLimitExceededException",
                f"Cannot have more than {queued:.0f} builds in queue for the account",
            )

    def _push(self, build: Build) -> None:
        manifest = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "build": build.id}
        ecr_backends[self.account][build.region].put_image(
            build.variables["REPOSITORY"], json.dumps(manifest), build.variables["TAG"]
        )

    def _project(self, name: str, region: str) -> Any:
        """moto's own record of a project."""
        projects = codebuild_backends[self.account][region].codebuild_projects
        if name not in projects:
            raise ServiceError("ResourceNotFoundException", f"Project {name} cannot be found")
        return projects[name].project_metadata
