"""The images of a deployment: which are there, what the scans found, their builds and bases."""

from __future__ import annotations

import hashlib
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Literal

from botocore.exceptions import ClientError

from compilegate.account.errors import AwsError, absent_allowed, aws_errors
from compilegate.account.session import AwsSession, read_outputs
from compilegate.account.settings import Names
from compilegate.account.settings.names import output_suffix
from compilegate.catalog.images import ecr_repository
from compilegate.pipelines.images import ImageFolder

State = Literal["built", "building", "failed", "missing", "stale", "unused"]
"""`missing` was never built as it is deployed; `stale` is not deployed as it is now."""

SEVERITIES = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFORMATIONAL", "UNDEFINED")
POLL_SECONDS = 10.0
"""Between two looks at builds that take minutes."""


@dataclass(frozen=True, kw_only=True)
class Build:
    id: str
    image: str
    status: str
    """`IN_PROGRESS`, `SUCCEEDED`, `FAILED`, `FAULT`, `TIMED_OUT` or `STOPPED`."""
    phase: str
    """What it is at, in the service's word: `PROVISIONING`, `BUILD`, ..."""
    seconds: float | None
    """How long it took; None while it is in progress."""
    log: str | None
    """The page of what it printed; None before it prints anything."""
    reason: str | None
    """Why it failed, in the service's words."""

    @property
    def in_progress(self) -> bool:
        return self.status == "IN_PROGRESS"

    @property
    def failed(self) -> bool:
        return self.status not in ("IN_PROGRESS", "SUCCEEDED")


@dataclass(frozen=True, kw_only=True)
class ImageStatus:
    """One image folder, and what the account has of it."""

    image: ImageFolder
    used: bool
    project: str
    variables: Mapping[str, str]
    """What a build of it is given; empty for a folder that is not deployed."""
    built: bool
    """Whether the deployed image is in its repository."""
    build: Build | None = None
    """The latest build of the deployed image, where that is not there."""
    findings: Mapping[str, int] | None = None
    """Vulnerabilities by severity, worst first; None when there is no finished scan."""

    @property
    def state(self) -> State:
        if not self.variables and not self.used:
            return "unused"
        if self.variables.get("TAG") != self.image.tag:
            return "stale"
        if self.built:
            return "built"
        if self.build is not None and self.build.in_progress:
            return "building"
        return "failed" if self.build is not None and self.build.failed else "missing"

    @property
    def deployed(self) -> str:
        """`REPOSITORY:TAG` that the deployed pipelines use."""
        return "{REPOSITORY}:{TAG}".format_map(self.variables)

    @property
    def obstacle(self) -> str | None:
        """Why its build cannot be started, and what to do; None where it can be, or was."""
        if self.state == "unused":
            return "no workload uses it, so it is not built"
        if self.state == "stale":
            return f"{self.image.folder} is not deployed as it is now; make deploy builds it"
        if self.built or "@" in self.variables["BASE_IMAGE"]:
            return None
        return (
            f"its base is {self.variables['BASE_IMAGE']}, expected a digest; look it up with: "
            "compilegate aws images --pin --missing, and deploy that with: make deploy"
        )


def read_images(
    session: AwsSession, names: Names, folders: Mapping[str, ImageFolder], used: Collection[str]
) -> list[ImageStatus]:
    """What the account has of each folder; `used` are those that workloads need.

    Raises NotDeployedError when the images were never deployed, and AwsError.
    """
    outputs = read_outputs(session, names.images_stack).values
    builds: dict[str, Build] | None = None
    found = []
    for name, image in folders.items():
        status = ImageStatus(
            image=image,
            used=name in used,
            project=names.build_project,
            variables=json.loads(outputs.get(f"Build{output_suffix(name)}", "{}")),
            built=False,
        )
        if status.variables:
            place = (status.variables["REPOSITORY"], status.variables["TAG"])
            if _is_there(session, *place):
                status = replace(status, built=True, findings=_findings(session, *place))
            else:
                if builds is None:
                    builds = _latest_builds(session, names.build_project)
                status = replace(status, build=builds.get(status.deployed))
        found.append(status)
    return found


def unbuilt_images(session: AwsSession, images: Mapping[str, str]) -> list[str]:
    """Which of these are not in their registry; a URI in the account's own by each name."""
    return [
        name
        for name, uri in images.items()
        if (own := ecr_repository(uri)) and not _is_there(session, own.name, uri.rpartition(":")[2])
    ]


def start_builds(
    session: AwsSession, waiting: dict[str, ImageStatus]
) -> Iterator[tuple[str, Build]]:
    """Start the builds of images that are not there; yields an image's name and its build.

    What is started leaves `waiting`; where the account's quota lets no further one start, the rest
    stays. Whoever else starts a build within five minutes gets the same.
    """
    for image, status in list(waiting.items()):
        after = status.build.id if status.build is not None else "none"
        token = hashlib.sha256(f"{status.deployed} after {after}".encode()).hexdigest()
        variables = [{"name": name, "value": value} for name, value in status.variables.items()]
        with aws_errors(f"start the build of {image}"):
            try:
                answer = session.client("codebuild").start_build(
                    projectName=status.project,
                    idempotencyToken=token,
                    environmentVariablesOverride=variables,
                )
            except ClientError as error:
                if error.response["Error"]["Code"] == "AccountLimitExceededException":
                    return
                raise
        del waiting[image]
        yield image, _build(answer["build"])


def follow_builds(
    session: AwsSession,
    builds: Mapping[str, Build],
    waiting: Mapping[str, ImageStatus],
    poll_seconds: float,
) -> Iterator[tuple[str, Build]]:
    """Wait until every build has ended; yields an image's name and its build whenever it reaches
    another phase. `waiting` are those for whose builds the quota had no room until now.

    Raises AwsError when AWS cannot be asked any longer; the builds then go on.
    """
    now, still = dict(builds), dict(waiting)
    while still or any(build.in_progress for build in now.values()):
        time.sleep(poll_seconds)
        for image, build in start_builds(session, still):
            now[image] = build
            yield image, build
        going = {build.id: image for image, build in now.items() if build.in_progress}
        for build in _read_builds(session, list(going)):
            image = going[build.id]
            before, now[image] = now[image], build
            if (before.status, before.phase) != (build.status, build.phase):
                yield image, build


def _is_there(session: AwsSession, repository: str, tag: str) -> bool:
    named = {"repositoryName": repository, "imageIds": [{"imageTag": tag}]}
    with aws_errors(f"look for {repository}:{tag}"), absent_allowed():
        session.client("ecr").describe_images(**named)
        return True
    return False


def _findings(session: AwsSession, repository: str, tag: str) -> Mapping[str, int] | None:
    """What the scan of an image found; None if it was not scanned, or the scan is still running."""
    answer: Mapping[str, Any] = {}
    named = {"repositoryName": repository, "imageId": {"imageTag": tag}}
    with aws_errors(f"read the scan of {repository}:{tag}"), absent_allowed():
        answer = session.client("ecr").describe_image_scan_findings(**named)
    if answer.get("imageScanStatus", {}).get("status") not in ("COMPLETE", "ACTIVE"):
        return None
    counts = answer.get("imageScanFindings", {}).get("findingSeverityCounts", {})
    return {severity: counts[severity] for severity in SEVERITIES if counts.get(severity)}


def _latest_builds(session: AwsSession, project: str) -> dict[str, Build]:
    """The latest build of each image, `REPOSITORY:TAG`, among the project's last hundred."""
    with aws_errors(f"look for builds of {project}"):
        ids = session.client("codebuild").list_builds_for_project(
            projectName=project, sortOrder="DESCENDING"
        )["ids"]
    builds = sorted(_read_builds(session, ids), key=lambda build: -ids.index(build.id))
    return {build.image: build for build in builds}


def _read_builds(session: AwsSession, ids: list[str]) -> list[Build]:
    if not ids:
        return []
    with aws_errors("read the builds"):
        answer = session.client("codebuild").batch_get_builds(ids=ids)
    if answer.get("buildsNotFound"):
        raise AwsError(f"cannot read the builds: {', '.join(answer['buildsNotFound'])} is gone")
    return [_build(described) for described in answer["builds"]]


def _build(described: Mapping[str, Any]) -> Build:
    environment = described.get("environment", {}).get("environmentVariables", [])
    variables = {entry["name"]: entry["value"] for entry in environment}
    ended = described.get("endTime")
    return Build(
        id=described["id"],
        image=f"{variables.get('REPOSITORY')}:{variables.get('TAG')}",
        status=described["buildStatus"],
        phase=described.get("currentPhase", "SUBMITTED"),
        seconds=(ended - described["startTime"]).total_seconds() if ended else None,
        log=described.get("logs", {}).get("deepLink"),
        reason=next(_reasons(described.get("phases", [])), None),
    )


def _reasons(phases: list[Mapping[str, Any]]) -> Iterator[str]:
    for phase in phases:
        if phase.get("phaseStatus") not in (None, "SUCCEEDED", "IN_PROGRESS"):
            reason = " ".join(each.get("message", "") for each in phase.get("contexts", []))
            yield f"{phase['phaseType'].lower()}: {reason.strip() or phase['phaseStatus'].lower()}"


MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""An index first: a tag of several platforms is then the same on each of them."""
SECONDS = 30


def base_digest(session: AwsSession, image: ImageFolder) -> str:
    """The digest, `sha256:...`, that the tag of an image's base stands for now. Raises AwsError."""
    uri = replace(image, digest=None).base_uri(session.region)
    repository, tag = ecr_repository(uri), uri.rpartition(":")[2]
    if repository is None:
        return _registry_digest(uri)
    with aws_errors(f"look up {repository.name}:{tag} in the registry of {repository.account}"):
        found = (
            session.in_region(repository.region)
            .client("ecr")
            .batch_get_image(
                registryId=repository.account,
                repositoryName=repository.name,
                imageIds=[{"imageTag": tag}],
                acceptedMediaTypes=list(MANIFESTS),
            )["images"]
        )
    if not found:
        raise AwsError(f"{repository.host}/{repository.name} has no image {tag}")
    return str(found[0]["imageId"]["imageDigest"])


def _registry_digest(uri: str) -> str:
    """By the registry's own interface, for one that lets anybody pull."""
    image, _, tag = uri.rpartition(":")
    host, _, name = image.partition("/")
    scheme = "http" if host.startswith("localhost:") else "https"
    request = urllib.request.Request(  # noqa: S310  https, or a registry of this machine
        f"{scheme}://{host}/v2/{name}/manifests/{tag}",
        headers={"Accept": ", ".join(MANIFESTS)},
        method="HEAD",
    )
    try:
        try:
            answer = urllib.request.urlopen(request, timeout=SECONDS)  # noqa: S310
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.UNAUTHORIZED:
                raise
            token = _token(error.headers.get("WWW-Authenticate", ""))
            request.add_header("Authorization", f"Bearer {token}")
            answer = urllib.request.urlopen(request, timeout=SECONDS)  # noqa: S310
    except (OSError, ValueError) as error:
        raise AwsError(f"cannot look up the digest of {uri}: {error}") from error
    with answer:
        digest = str(answer.headers.get("Docker-Content-Digest"))
    if re.fullmatch(r"sha256:[0-9a-f]{64}", digest) is None:
        raise AwsError(f"the digest of {uri} is {digest}, expected sha256:...")
    return digest


def _token(challenge: str) -> str:
    """A token for anybody, from where the registry says that there are some."""
    given = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = given.pop("realm", "")
    if not realm.startswith(("https://", "http://localhost:")):
        raise AwsError("the registry wants a login, and names no place for a token")
    address = f"{realm}?{urllib.parse.urlencode(given)}"
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:  # noqa: S310
        document = json.load(answer)
    return str(document.get("token") or document.get("access_token"))
