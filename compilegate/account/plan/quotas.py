"""What the account's quotas say to the jobs of a definition, and to the builds of images.

A job over its quota does not wait in a queue: the service refuses it. So nothing starts that a
quota forbids, and an execution has no more steps in parallel than the quotas allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.account.errors import AwsError, asking
from compilegate.account.executions.calls import console
from compilegate.account.plan.jobs import PlannedJob
from compilegate.account.session import AwsSession
from compilegate.document.graph import build_graph, most_in_parallel
from compilegate.document.model import Definition
from compilegate.errors import CompilegateError

SERVICES = {"sagemaker": "SageMaker", "codebuild": "CodeBuild"}
LONGEST_TRAINING = "Longest run time for a training job"
LARGEST_TRAINING = "Maximum number of instances per training job"
LARGEST_DEFINITION = 1_048_576
"""Characters that CreatePipeline takes."""
QUEUED_FOR_EACH = 5
"""Builds that CodeBuild queues for each that may run: its user guide, "Builds in AWS CodeBuild"."""

Answer = Literal["allows", "limits", "forbids", "unknown"]


class QuotaError(CompilegateError):
    """The account's quotas forbid an execution; a line for each."""


@dataclass(frozen=True)
class Quota:
    """What the account is granted of one."""

    value: float
    page: str
    """Where to ask for more."""


@dataclass(frozen=True)
class QuotaAnswer:
    """What one quota says."""

    quota: str
    answer: Answer
    """`limits`: not everything that is ready can run at once; `forbids`: nothing of it can run."""
    sentence: str
    at_once: int | None = None
    """The most steps in parallel that it lets run, where it limits them."""


def read_quotas(session: AwsSession, service: str = "sagemaker") -> dict[str, Quota]:
    """By name, those of one of `SERVICES`. Raises AwsError."""
    place = f"{console(session.partition, session.region)}/servicequotas/home/services/{service}"
    with asking(f"read the account's quotas of {SERVICES[service]}"):
        listed = session.listed(
            "service-quotas", "list_service_quotas", "Quotas", ServiceCode=service
        )
        return {
            each["QuotaName"]: Quota(each["Value"], f"{place}/quotas/{each['QuotaCode']}")
            for each in listed
            if "Value" in each
        }


def ask_quotas(
    session: AwsSession,
    definition: Definition,
    jobs: Sequence[PlannedJob],
    max_parallel_steps: int | None,
) -> tuple[list[QuotaAnswer], str | None]:
    """What they say, or none and why they are unknown, which is no reason to start nothing."""
    try:
        return check_quotas(definition, jobs, read_quotas(session), max_parallel_steps), None
    except AwsError as error:
        return [], str(error)


def most_at_once(answers: Sequence[QuotaAnswer]) -> int | None:
    """How many steps may run in parallel, where quotas limit that. Raises QuotaError where one
    forbids a job."""
    if forbidden := [each.sentence for each in answers if each.answer == "forbids"]:
        raise QuotaError(*forbidden)
    return min((each.at_once for each in answers if each.at_once is not None), default=None)


def check_quotas(
    definition: Definition,
    jobs: Sequence[PlannedJob],
    quotas: Mapping[str, Quota],
    max_parallel_steps: int | None,
) -> list[QuotaAnswer]:
    """`quotas` are SageMaker's."""
    return [
        *_instance_answers(definition, jobs, quotas, max_parallel_steps),
        *_single_job_answers(jobs, quotas),
    ]


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
    quotas: Mapping[str, Quota],
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


def _instance_answer(name: str, quota: Quota | None, each: int, needed: int) -> QuotaAnswer:
    if quota is None:
        return QuotaAnswer(name, "unknown", f"{name}: {needed} needed; the account lists no limit")
    said = f"{name}: {needed} needed at once, allowed: {quota.value:.0f}"
    if quota.value < each:
        return QuotaAnswer(
            name,
            "forbids",
            f"{said}; no such job can start: name another instance type, or ask for more at "
            f"{quota.page}",
        )
    if quota.value < needed:
        most = int(quota.value // each)
        return QuotaAnswer(
            name,
            "limits",
            f"{said}; aws submit runs {most} steps at a time: set max_parallel_steps = {most} in "
            f"[compute] for other starts, or ask for more at {quota.page}",
            most,
        )
    return QuotaAnswer(name, "allows", said)


def _single_job_answers(
    jobs: Sequence[PlannedJob], quotas: Mapping[str, Quota]
) -> Iterator[QuotaAnswer]:
    """What one training job may take, where it would take more."""
    training = [job for job in jobs if job.kind == "training"]
    for name, key, needed in (
        (LONGEST_TRAINING, "max_runtime_seconds", [job.max_seconds or 0 for job in training]),
        (LARGEST_TRAINING, "instance_count", [job.instances for job in training]),
    ):
        quota = quotas.get(name)
        if needed and quota is not None and max(needed) > quota.value:
            yield QuotaAnswer(
                name,
                "forbids",
                f"{name}: {key} is {max(needed):,}, allowed: {quota.value:,.0f}; lower it, or ask "
                f"for more at {quota.page}",
            )


def check_size(characters: int) -> QuotaAnswer:
    """The one limit on a definition that cannot be raised."""
    fits = characters <= LARGEST_DEFINITION
    return QuotaAnswer(
        "size of a pipeline definition",
        "allows" if fits else "forbids",
        f"the definition has {characters:,} characters, allowed: {LARGEST_DEFINITION:,}"
        + ("" if fits else "; declare fewer arms or seeds"),
    )


def check_builds(machine: str, images: int, quotas: Mapping[str, Quota]) -> QuotaAnswer:
    """What the account's quotas of CodeBuild say to the builds of so many images on a machine of
    the settings: `medium`, `large` or `2xlarge`."""
    kind = "2XLarge" if machine == "2xlarge" else machine.capitalize()
    name = f"Concurrently running builds for Linux/{kind} environment"
    quota = quotas.get(name)
    if quota is None:
        return QuotaAnswer(
            name, "unknown", f"{name}: {images} images to build; the account lists no limit"
        )
    said = f"{name}: {images} images to build, allowed at once: {quota.value:.0f}"
    if quota.value < 1:
        return QuotaAnswer(
            name,
            "forbids",
            f"{said}; no image can be built: ask for more at {quota.page}",
        )
    if images <= quota.value:
        return QuotaAnswer(name, "allows", said)
    waits = "the others are queued"
    if images > quota.value * (1 + QUEUED_FOR_EACH):
        queued = f"{QUEUED_FOR_EACH * quota.value:.0f} more are queued"
        waits = f"{queued}, and the rest is started later"
    return QuotaAnswer(name, "limits", f"{said}; {waits}")
