"""The images of a deployment: which are there, which are not, and what the scans found."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError

from compilegate.account.deployed import StackOutputs, read_outputs
from compilegate.account.errors import NotDeployedError, asking, is_absent
from compilegate.account.image_builds import Build, latest_build, start_build
from compilegate.account.session import AwsSession
from compilegate.account.settings import Names
from compilegate.account.settings.names import output_suffix
from compilegate.catalog.images import ecr_repository
from compilegate.pipelines.staging import ImageFolder

State = Literal["built", "building", "failed", "missing", "stale", "unused"]
"""`missing` was never built as it is deployed; `stale` was changed since it was deployed; `unused`
is not deployed, and no workload needs it."""

SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "UNDEFINED")


@dataclass(frozen=True, kw_only=True)
class ImageStatus:
    """One image folder, and what the account has of it."""

    image: ImageFolder
    state: State
    project: str | None
    """The CodeBuild project; None for a folder that is not deployed yet."""
    deployed_tag: str | None
    """What the deployed pipelines use."""
    build: Build | None
    """The latest build of this very content."""
    findings: Mapping[str, int] | None
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
    """Start the build of an image that is not there. Raises AwsError.

    Whoever else starts it in these minutes gets the same build.
    """
    if status.project is None:
        raise NotDeployedError(status.obstacle or "")
    after = status.build.id.rpartition(":")[2] if status.build is not None else "first"
    return start_build(session, status.project, f"{status.image.tag}-{after}"[:64])


def _status(
    session: AwsSession, outputs: StackOutputs, image: ImageFolder, *, used: bool
) -> ImageStatus:
    suffix = output_suffix(image.name)
    uri = outputs.values.get(f"ImageUri{suffix}")
    if uri is None:
        return ImageStatus(
            image=image,
            state="missing" if used else "unused",
            project=None,
            deployed_tag=None,
            build=None,
            findings=None,
        )
    project = outputs[f"BuildProject{suffix}"]
    tag = uri.rpartition(":")[2]
    repository = ecr_repository(uri)
    there = repository is not None and _is_there(session, repository.name, tag)
    build = None if there else latest_build(session, project)
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
    with asking(f"look for {repository}:{tag}"):
        try:
            _ecr(session).describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])
        except ClientError as error:
            if is_absent(error):
                return False
            raise
    return True


def _findings(session: AwsSession, repository: str, tag: str) -> Mapping[str, int] | None:
    """What the scan of an image found; None if it was not scanned, or the scan is still running."""
    with asking(f"read the scan of {repository}:{tag}"):
        try:
            answer = _ecr(session).describe_image_scan_findings(
                repositoryName=repository, imageId={"imageTag": tag}
            )
        except ClientError as error:
            if is_absent(error):
                return None
            raise
    if answer.get("imageScanStatus", {}).get("status") not in ("COMPLETE", "ACTIVE"):
        return None
    counts = answer.get("imageScanFindings", {}).get("findingSeverityCounts", {})
    return {severity: counts[severity] for severity in SEVERITIES if counts.get(severity)}


def _ecr(session: AwsSession) -> Any:
    return session.client("ecr")
