"""What the account's quotas say to the jobs of a definition, and to the builds of images.

A job over its quota does not wait in a queue: the service refuses it. So nothing starts that a
quota forbids, and an execution has no more steps in parallel than the quotas allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.access.console import console
from compilegate.account.errors import AwsError, aws_errors
from compilegate.account.plan.jobs import PlannedJob
from compilegate.account.session import AwsSession
from compilegate.document.graph import build_graph, most_in_parallel
from compilegate.document.model import Definition
from compilegate.errors import CompilegateError

SERVICES = {"sagemaker": "SageMaker", "codebuild": "CodeBuild"}
LONGEST_TRAINING = "Longest run time for a training job"
LARGEST_TRAINING = "Maximum number of instances per training job"
LARGEST_DEFINITION = 1_048_576
"""Characters that CreatePipeline takes; a template may have as many bytes."""

Answer = Literal["allows", "limits", "forbids", "unknown"]


class QuotaError(CompilegateError):
    """The account's quotas forbid an execution; a line for each."""


@dataclass(frozen=True)
class Quota:
    value: float
    page: str


@dataclass(frozen=True)
class QuotaAnswer:
    quota: str
    answer: Answer
    """`limits`: not everything that is ready can run at once; `forbids`: nothing of it can run."""
    sentence: str
    at_once: int | None = None
    """The most that it lets run in parallel, where it limits that."""


def read_quotas(session: AwsSession, service: str = "sagemaker") -> dict[str, Quota]:
    """By name, those of one of `SERVICES`. Raises AwsError."""
    place = f"{console(session.partition, session.region)}/servicequotas/home/services/{service}"
    listing = ("service-quotas", "list_service_quotas", "Quotas")
    with aws_errors(f"read the account's quotas of {SERVICES[service]}"):
        return {
            each["QuotaName"]: Quota(each["Value"], f"{place}/quotas/{each['QuotaCode']}")
            for each in session.listed(*listing, ServiceCode=service)
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
    graph = build_graph(definition)
    answers = []
    of_types, of_all = (dict.fromkeys(_quotas_of(job)[n] for job in jobs) for n in (0, 1))
    for name in [*of_types, *(name for name in of_all if name in quotas)]:
        counted = [job for job in jobs if name in _quotas_of(job)]
        at_once = most_in_parallel(graph, [job.step for job in counted])
        if max_parallel_steps is not None:
            at_once = min(at_once, max_parallel_steps)
        each = max(job.instances for job in counted)
        answers.append(
            _answer(
                name,
                quotas.get(name),
                f"{at_once * each} needed at once",
                each=each,
                needed=at_once * each,
                forbids="no such job can start: name another instance type",
                limits="aws submit runs {most} steps at a time: set max_parallel_steps = {most} in "
                "[compute] for other starts",
            )
        )
    return [*answers, *_single_job_answers(jobs, quotas)]


def _quotas_of(job: PlannedJob) -> tuple[str, str]:
    """The quotas that a job's instances count against, as Service Quotas calls them: that of its
    instance type, and that of the account for all jobs of the kind, four in a new account."""
    kind = "spot training" if job.spot else job.kind
    return (
        f"{job.instance_type} for {kind} job usage",
        f"Number of instances across all {kind} jobs",
    )


def _answer(
    name: str, quota: Quota | None, what: str, *, each: int, needed: int, forbids: str, limits: str
) -> QuotaAnswer:
    """`each` is what one needs, `needed` what all need that are ready together."""
    if quota is None:
        return QuotaAnswer(name, "unknown", f"{name}: {what}; the account lists no limit")
    message = f"{name}: {what}, allowed: {quota.value:.0f}"
    most = int(quota.value // each)
    if most < 1:
        return QuotaAnswer(
            name, "forbids", f"{message}; {forbids}, or ask for more at {quota.page}"
        )
    if quota.value < needed:
        slower = f"{message}; {limits.format(most=most)}, or ask for more at {quota.page}"
        return QuotaAnswer(name, "limits", slower, most)
    return QuotaAnswer(name, "allows", message)


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
    message = f"the definition has {characters:,} characters, allowed: {LARGEST_DEFINITION:,}"
    name = "size of a pipeline definition"
    if characters <= LARGEST_DEFINITION:
        return QuotaAnswer(name, "allows", message)
    return QuotaAnswer(name, "forbids", f"{message}; declare fewer arms or seeds")


def check_builds(machine: str, images: int, quotas: Mapping[str, Quota]) -> QuotaAnswer:
    """What the account's quotas of CodeBuild say to the builds of so many images on a machine of
    the settings: `medium`, `large` or `2xlarge`."""
    kind = "2XLarge" if machine == "2xlarge" else machine.capitalize()
    name = f"Concurrently running builds for Linux/{kind} environment"
    return _answer(
        name,
        quotas.get(name),
        f"{images} images to build at once",
        each=1,
        needed=images,
        forbids="no image can be built: choose another build_machine",
        limits="the others wait",
    )
