"""The handler: acts on a deployment, on the end of a build, and on the rules that call it.

Errors are raised, never swallowed: Lambda then delivers the event again, and finally puts it into
the dead-letter queue, whose alarm goes off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from builder.bases import Registries
from builder.builds import Build, CodeBuild, NoRoomError
from builder.settings import Settings, read_settings

DEPLOYED, ENDED = "aws.cloudformation", "aws.codebuild"
LOOK_AT_BASES = "bases"
"""What the weekly rule's event says."""
TELLING = ("FAILED", "FAULT", "TIMED_OUT")
"""Ends of a build that people are told of; one that was stopped was stopped by one of them."""
LONGEST_SUBJECT = 100
# The function has a minute, so a call that hangs is abandoned and retried.
_CONFIG = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, list[str]]:
    """Handle one event; returns what came of each image, and prints it for the log."""
    said = connect(read_settings(os.environ)).handle(event)
    print(json.dumps(said))
    return said


@cache
def connect(settings: Settings) -> Builder:
    """The builder of one project, with clients that a warm function reuses."""
    names = ("codebuild", "ecr", "events", "sns")
    codebuild, ecr, events, sns = (boto3.client(name, config=_CONFIG) for name in names)
    registries = Registries(lambda region: boto3.client("ecr", region_name=region, config=_CONFIG))
    return Builder(settings, CodeBuild(codebuild, ecr), registries, events, sns)


@dataclass(frozen=True)
class Builder:
    """Starts what is missing, and tells people what only they can mend."""

    settings: Settings
    codebuild: CodeBuild
    registries: Registries
    events: Any
    sns: Any

    def handle(self, event: Mapping[str, Any]) -> dict[str, list[str]]:
        """Act on an event; says which images are built, building, started, failed and waiting."""
        source = event.get("source")
        if event.get("act") == LOOK_AT_BASES:
            return {"moved": self._look_at_bases()}
        if source == ENDED:
            self._tell_of_failure(event["detail"])
        return self._look(again=source == DEPLOYED)

    def _tell_of_failure(self, detail: Mapping[str, Any]) -> None:
        if detail["build-status"] not in TELLING:
            return
        build = self.codebuild.build(detail["build-id"].rpartition("/")[2])
        if build is None or build.queued_out:
            return
        self._publish(
            f"The image build {build.project} failed",
            f"{build.id} failed: {build.reason}\n"
            + (f"Its log: {build.log}\n" if build.log else "")
            + "\nUntil it succeeds, no job that runs in this image can start. When the cause is "
            "mended, `make deploy` builds a changed folder, and `compilegate aws images --build` "
            "starts the same build again.",
        )

    def _look_at_bases(self) -> list[str]:
        """Tell people of base images that were patched; names the images that extend them."""
        projects = self.codebuild.projects(self.settings.build_projects)
        moved = [
            project
            for project in projects
            if project.base_name and self.registries.has_moved(project)
        ]
        if moved:
            images = [f"{project.image} extends {project.base_name}" for project in moved]
            self._publish(
                f"Base images with patches, of: {', '.join(project.image for project in moved)}",
                "\n".join(images)
                + "\n\nThe tag of each stands for another image than these are built from. "
                "`compilegate aws images --pin` writes what it stands for now into "
                "infra/images.lock.toml; that is a change like any other: `compilegate aws plan` "
                "says what it costs, `make deploy` builds new images, and the next execution "
                "trains in them and compares.",
            )
        return [project.image for project in moved]

    def _look(self, *, again: bool) -> dict[str, list[str]]:
        """Start what is missing; `again` also what failed, as after a deployment."""
        found: dict[str, list[str]] = {}
        refused = ""
        for project in self.codebuild.projects(self.settings.build_projects):
            if self.codebuild.is_built(project):
                state = "built"
            else:
                latest = self.codebuild.latest(project)
                if latest is not None and latest.in_progress:
                    state = "building"
                elif latest is not None and not again and not latest.queued_out:
                    state = "failed"
                else:
                    state = "started"
                    try:
                        self.codebuild.start(project, _after(latest))
                    except NoRoomError as error:
                        state, refused = "waiting", str(error)
            found.setdefault(state, []).append(project.image)
        self._wait(found.get("waiting", []), refused)
        return found

    def _wait(self, images: list[str], refused: str) -> None:
        """Be called again while images wait for room; tell people when that begins."""
        rule = self.settings.waiting_rule
        waits = self.events.describe_rule(Name=rule)["State"] == "ENABLED"
        if images and not waits:
            self._publish(
                f"{len(images)} image builds wait for the account's quota",
                f"{', '.join(images)}: AWS lets no further build start: {refused}\n\n"
                "They are asked for again every few minutes, and nothing has to be done if other "
                "builds are running. A new account can have a quota of none: then ask for more in "
                "the Service Quotas console, under AWS CodeBuild, Concurrently running builds. "
                "`compilegate aws images` shows where they stand.",
            )
            self.events.enable_rule(Name=rule)
        elif waits and not images:
            self.events.disable_rule(Name=rule)

    def _publish(self, subject: str, text: str) -> None:
        self.sns.publish(
            TopicArn=self.settings.topic_arn, Subject=subject[:LONGEST_SUBJECT], Message=text
        )


def _after(build: Build | None) -> str:
    return "first" if build is None else build.id.rpartition(":")[2]
