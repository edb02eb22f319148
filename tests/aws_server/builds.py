"""Builds of CodeBuild, which go through the frames of a script: moto's succeed when looked at.

As AWS says of builds, those that the account's quota lets run and five times as many in the queue
are taken, and any further start is refused.

A frame is `{"status": "IN_PROGRESS", "phase": "BUILD"}`, `{"status": "FAILED", "message": "why"}`
or `{"status": "SUCCEEDED"}`, which pushes the image that the build's variables name. Each
BatchGetBuilds moves a build to its next frame and the last one stays. The projects are moto's; an
image without a script has builds that succeed at the second look.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.codebuild.models import codebuild_backends
from moto.ecr.models import ecr_backends

from tests.aws_server.faults import ServiceError
from tests.aws_server.quotas import Quotas

Request = dict[str, Any]
MEDIUM = "Concurrently running builds for Linux/Medium environment"
"""The quota of the machine that every project of the tests builds on."""
QUEUED_FOR_EACH = 5
SUCCESS = ({"status": "IN_PROGRESS", "phase": "BUILD"}, {"status": "SUCCEEDED"})


@dataclass
class ScriptedBuild:
    """One build and how far along its script it is."""

    id: str
    project: str
    region: str
    token: str | None
    variables: dict[str, str]
    frames: list[dict[str, Any]]
    position: int = -1

    @property
    def ended(self) -> bool:
        return self.position >= 0 and self.frames[self.position]["status"] != "IN_PROGRESS"

    def describe(self) -> dict[str, Any]:
        frame = {"status": "IN_PROGRESS", "phase": "QUEUED"}
        if self.position >= 0:
            frame = self.frames[self.position]
        ended = frame["status"] != "IN_PROGRESS"
        described = {
            "id": self.id,
            "projectName": self.project,
            "buildStatus": frame["status"],
            "currentPhase": "COMPLETED" if ended else frame["phase"],
            "startTime": 1_000_000_000,
            "environment": {
                "environmentVariables": [
                    {"name": name, "value": value} for name, value in self.variables.items()
                ]
            },
            "logs": {"deepLink": f"https://console.aws.amazon.com/cloudwatch/#{self.id}"},
            "phases": [{"phaseType": "QUEUED", "phaseStatus": "SUCCEEDED"}],
        }
        if frame["status"] == "TIMED_OUT":
            described["phases"] = [{"phaseType": frame["phase"], "phaseStatus": "TIMED_OUT"}]
        if ended:
            described["endTime"] = 1_000_000_090
        if "message" in frame:
            described["phases"].append(
                {
                    "phaseType": "BUILD",
                    "phaseStatus": "FAILED",
                    "contexts": [{"statusCode": "X", "message": frame["message"]}],
                }
            )
        return described


@dataclass
class Builds:
    """All builds of the account."""

    account: str
    quotas: Quotas
    scripts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By repository."""
    started: dict[str, ScriptedBuild] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def operations(self) -> dict[str, Callable[[Request, str], dict[str, Any]]]:
        """By the name of the API's operation."""
        return {
            "StartBuild": self.start,
            "StopBuild": self.stop,
            "BatchGetBuilds": self.batch_get,
            "ListBuildsForProject": self.list_for_project,
        }

    def start(self, request: Request, region: str) -> dict[str, Any]:
        project = self._project(request["projectName"], region)
        token = request.get("idempotencyToken")
        for build in self.started.values():
            if token is not None and build.token == token:
                return {"build": build.describe()}
        self._check_room()
        name = project.project_metadata["name"]
        variables = _variables(
            project.project_metadata["environment"].get("environmentVariables", [])
        )
        variables |= _variables(request.get("environmentVariablesOverride", []))
        build = ScriptedBuild(
            id=f"{name}:build{next(self._numbers):03d}",
            project=name,
            region=region,
            token=token,
            variables=variables,
            frames=list(self.scripts.get(variables["REPOSITORY"], SUCCESS)),
        )
        self.started[build.id] = build
        return {"build": build.describe()}

    def stop(self, request: Request, _region: str) -> dict[str, Any]:
        build = self.started[request["id"]]
        build.frames, build.position = [{"status": "STOPPED"}], 0
        return {"build": build.describe()}

    def _check_room(self) -> None:
        """Raises ServiceError when the account's quota has no room, where it has one at all."""
        most = self.quotas.values.get(MEDIUM)
        going = [build for build in self.started.values() if not build.ended]
        if most is not None and len(going) >= most + (queued := QUEUED_FOR_EACH * most):
            raise ServiceError(
                "AccountLimitExceededException",
                f"Cannot have more than {queued:.0f} builds in queue for the account",
            )

    def batch_get(self, request: Request, _region: str) -> dict[str, Any]:
        found = [self.started[id] for id in request["ids"] if id in self.started]
        for build in found:
            self._advance(build)
        return {
            "builds": [build.describe() for build in found],
            "buildsNotFound": [id for id in request["ids"] if id not in self.started],
        }

    def list_for_project(self, request: Request, region: str) -> dict[str, Any]:
        name = self._project(request["projectName"], region).project_metadata["name"]
        ids = [build.id for build in self.started.values() if build.project == name]
        return {"ids": ids[::-1] if request.get("sortOrder") == "DESCENDING" else ids}

    def _advance(self, build: ScriptedBuild) -> None:
        before = build.position
        build.position = min(before + 1, len(build.frames) - 1)
        if build.position != before and build.frames[build.position]["status"] == "SUCCEEDED":
            self._push(build)

    def _push(self, build: ScriptedBuild) -> None:
        manifest = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "build": build.id}
        ecr_backends[self.account][build.region].put_image(
            build.variables["REPOSITORY"], json.dumps(manifest), build.variables["TAG"]
        )

    def _project(self, name: str, region: str) -> Any:
        """moto's own record of a project."""
        projects = codebuild_backends[self.account][region].codebuild_projects
        if name not in projects:
            raise ServiceError("ResourceNotFoundException", f"Project {name} cannot be found")
        return projects[name]


def _variables(entries: list[dict[str, str]]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in entries}
