"""What the account's quotas say to the jobs of a definition. Pure.

A job over its quota does not wait in a queue: the service refuses it, and it is asked for again
for as long as the step's retry policies say; then the step fails.

The account's quotas of SageMaker, as Service Quotas lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.account.errors import asking
from compilegate.account.plan.jobs import PlannedJob
from compilegate.account.session import AwsSession
from compilegate.document.graph import build_graph, most_in_parallel
from compilegate.document.model import Definition

SERVICES = {"sagemaker": "SageMaker", "codebuild": "CodeBuild"}


def read_quotas(session: AwsSession, service: str = "sagemaker") -> dict[str, float]:
    """Value by name, of one of `SERVICES`. Raises AwsError."""
    with asking(f"read the account's quotas of {SERVICES[service]}"):
        quotas = session.listed(
            "service-quotas", "list_service_quotas", "Quotas", ServiceCode=service
        )
        return {quota["QuotaName"]: quota["Value"] for quota in quotas if "Value" in quota}


LONGEST_TRAINING = "Longest run time for a training job"
LARGEST_TRAINING = "Maximum number of instances per training job"
LARGEST_DEFINITION = 1_048_576
"""Characters that CreatePipeline takes."""
_ASK = "ask for more in the Service Quotas console"

Answer = Literal["allows", "limits", "forbids", "unknown"]


@dataclass(frozen=True)
class QuotaAnswer:
    """What one quota says."""

    quota: str
    answer: Answer
    """`limits`: not everything that is ready can run at once; `forbids`: nothing of it can run."""
    sentence: str


def check_quotas(
    definition: Definition,
    jobs: Sequence[PlannedJob],
    quotas: Mapping[str, float],
    max_parallel_steps: int | None,
) -> list[QuotaAnswer]:
    """`quotas` maps the name of each quota of SageMaker to the account's value."""
    return [
        *_instance_answers(definition, jobs, quotas, max_parallel_steps),
        *_single_job_answers(jobs, quotas),
    ]


QUEUED_FOR_EACH = 5
"""Builds that CodeBuild queues for each that may run: its user guide, "Builds in AWS CodeBuild"."""


def check_builds(machine: str, images: int, quotas: Mapping[str, float]) -> QuotaAnswer:
    """What the account's quotas of CodeBuild say to the builds of so many images on a machine of
    the settings: `medium`, `large` or `2xlarge`."""
    name = "2XLarge" if machine == "2xlarge" else machine.capitalize()
    quota = f"Concurrently running builds for Linux/{name} environment"
    allowed = quotas.get(quota)
    if allowed is None:
        return QuotaAnswer(
            quota, "unknown", f"{quota}: {images} images to build; the account lists no limit"
        )
    said = f"{quota}: {images} images to build, allowed at once: {allowed:.0f}"
    if allowed < 1:
        return QuotaAnswer(quota, "forbids", f"{said}; no image can be built: {_ASK}")
    if allowed < images:
        waits = "the others are queued"
        if images > allowed * (1 + QUEUED_FOR_EACH):
            waits = (
                f"{QUEUED_FOR_EACH * allowed:.0f} more are queued, and the rest is started later"
            )
        return QuotaAnswer(quota, "limits", f"{said}; {waits}")
    return QuotaAnswer(quota, "allows", said)


def check_size(characters: int) -> QuotaAnswer:
    """The one limit on a definition that cannot be raised."""
    fits = characters <= LARGEST_DEFINITION
    return QuotaAnswer(
        "size of a pipeline definition",
        "allows" if fits else "forbids",
        f"the definition has {characters:,} characters, allowed: {LARGEST_DEFINITION:,}"
        + ("" if fits else "; declare fewer arms or seeds"),
    )


def quota_names(job: PlannedJob) -> tuple[str, str]:
    """The quotas that a job's instances count against, as Service Quotas calls them: that of its
    instance type, and that of the account for all jobs of the kind, four in a new account."""
    kind = "spot training" if job.spot else job.kind
    return (
        f"{job.instance_type} for {kind} job usage",
        f"Number of instances across all {kind} jobs",
    )


def _instance_answers(
    definition: Definition,
    jobs: Sequence[PlannedJob],
    quotas: Mapping[str, float],
    max_parallel_steps: int | None,
) -> Iterator[QuotaAnswer]:
    graph = build_graph(definition)
    of_types, of_all = (dict.fromkeys(quota_names(job)[n] for job in jobs) for n in (0, 1))
    for quota in [*of_types, *(name for name in of_all if name in quotas)]:
        counted = [job for job in jobs if quota in quota_names(job)]
        at_once = most_in_parallel(graph, [job.step for job in counted])
        if max_parallel_steps is not None:
            at_once = min(at_once, max_parallel_steps)
        each = max(job.instances for job in counted)
        yield _instance_answer(quota, quotas.get(quota), each, at_once * each)


def _instance_answer(quota: str, allowed: float | None, each: int, needed: int) -> QuotaAnswer:
    if allowed is None:
        return QuotaAnswer(
            quota, "unknown", f"{quota}: {needed} needed; the account lists no limit"
        )
    said = f"{quota}: {needed} needed at once, allowed: {allowed:.0f}"
    if allowed < each:
        return QuotaAnswer(quota, "forbids", f"{said}; no such job can start, {_ASK}")
    if allowed < needed:
        return QuotaAnswer(
            quota,
            "limits",
            f"{said}; jobs beyond it retry until there is room: set max_parallel_steps, or {_ASK}",
        )
    return QuotaAnswer(quota, "allows", said)


def _single_job_answers(
    jobs: Sequence[PlannedJob], quotas: Mapping[str, float]
) -> Iterator[QuotaAnswer]:
    """What one training job may take, where it would take more."""
    training = [job for job in jobs if job.kind == "training"]
    for quota, what, needed in (
        (LONGEST_TRAINING, "max_runtime_seconds", [job.max_seconds or 0 for job in training]),
        (LARGEST_TRAINING, "instance_count", [job.instances for job in training]),
    ):
        allowed = quotas.get(quota)
        if needed and allowed is not None and max(needed) > allowed:
            yield QuotaAnswer(
                quota,
                "forbids",
                f"{quota}: {what} is {max(needed):,}, allowed: {allowed:,.0f}; lower it or {_ASK}",
            )
