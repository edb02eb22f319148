"""Makes the job of a Training or Processing step: its name, its request, its sandbox."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.document.model import Step
from compilegate.document.step_types import PROCESSING, STEP_TYPES, TRAINING, TRANSFORM
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.job import Job
from compilegate.local.jobs.processing import ProcessingRequest, read_processing_request
from compilegate.local.jobs.sandbox import Sandboxes
from compilegate.local.jobs.training import TrainingRequest, read_training_request
from compilegate.local.transform import TransformRequest, read_transform_request

JobRequest = TrainingRequest | ProcessingRequest | TransformRequest

JOB_REQUESTS: Mapping[str, Callable[[Mapping[str, Any]], JobRequest]] = {
    TRAINING: read_training_request,
    PROCESSING: read_processing_request,
    TRANSFORM: read_transform_request,
}
"""What reads the request of each type of step that runs a job; each raises StepRequestError."""

_NAME_LIMIT = 63
_SUFFIX_CHARACTERS = 10
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class JobStep:
    """A job that is ready to run, and what its cached result would depend on."""

    job: Job
    image: str
    inputs: Sequence[str]
    """The URIs of what it reads, its source among them."""


def job_name_member(step: Step) -> str:
    """The execution variable that holds a job's own name, and the member that asks for a prefix."""
    member = STEP_TYPES[step.type].job_name
    assert member is not None, step.type  # noqa: S101  asked of steps that run a job
    return member


def new_job_name(execution_id: str, step: Step) -> str:
    """`pipelines-EXECUTION-STEP-SUFFIX`, at most 63 characters, unique.

    A job name that the request gives in plain text replaces the first three parts.
    """
    wanted = step.arguments.get(job_name_member(step))
    base = wanted if isinstance(wanted, str) else f"pipelines-{execution_id}-{step.name}"
    base = re.sub(r"[^A-Za-z0-9]+", "-", base).lstrip("-")
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(_SUFFIX_CHARACTERS))
    return f"{base[: _NAME_LIMIT - _SUFFIX_CHARACTERS - 1].rstrip('-')}-{suffix}"


def make_job(
    step: Step, name: str, request: Mapping[str, Any], sandboxes: Sandboxes, store: ObjectStore
) -> JobStep:
    """The job for a step's resolved request. Raises StepRequestError."""
    asked = JOB_REQUESTS[step.type](request)
    return JobStep(asked.job(name, sandboxes, store), asked.image, asked.input_uris)
