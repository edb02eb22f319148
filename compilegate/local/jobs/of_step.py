"""Makes the job of a Training or Processing step: its name, its request, its sandbox."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.document.model import Step
from compilegate.local.home.object_store import ObjectStore
from compilegate.local.jobs.job import Job
from compilegate.local.jobs.processing import ProcessingJob, read_processing_request
from compilegate.local.jobs.training import TrainingJob, read_training_request

JOB_TYPES = ("Training", "Processing")

# The execution variable that holds a job's own name, and the member that may ask for a prefix.
JOB_NAME_MEMBERS: Mapping[str, str] = {
    "Training": "TrainingJobName",
    "Processing": "ProcessingJobName",
}

_NAME_LIMIT = 63
_SUFFIX_CHARACTERS = 10
_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True)
class JobStep:
    """A job that is ready to run, and what its cached result would depend on."""

    job: Job
    image: str
    request: Mapping[str, Any]


def new_execution_id() -> str:
    """Twelve lower-case letters and digits, as SageMaker's execution ids."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(12))


def new_job_name(execution_id: str, step: Step) -> str:
    """`pipelines-EXECUTION-STEP-SUFFIX`, at most 63 characters, unique.

    A job name that the request gives in plain text replaces the first three parts.
    """
    wanted = step.arguments.get(JOB_NAME_MEMBERS[step.type])
    base = wanted if isinstance(wanted, str) else f"pipelines-{execution_id}-{step.name}"
    base = re.sub(r"[^A-Za-z0-9]+", "-", base).lstrip("-")
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(_SUFFIX_CHARACTERS))
    return f"{base[: _NAME_LIMIT - _SUFFIX_CHARACTERS - 1].rstrip('-')}-{suffix}"


def make_job(
    step: Step, name: str, request: Mapping[str, Any], jobs: Path, store: ObjectStore
) -> JobStep:
    """The job for a step's resolved request. Raises RequestError."""
    if step.type == "Training":
        training = read_training_request(request)
        job: Job = TrainingJob(name, training, jobs / name, store)
        return JobStep(job, training.image, request)
    processing = read_processing_request(request)
    return JobStep(ProcessingJob(name, processing, jobs / name, store), processing.image, request)
