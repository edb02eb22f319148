"""The steps that let the gate know which model was registered last.

Its evidence reaches an execution without a question to the registry: once a model is registered,
`Keep-ARM` copies it to one place of the workload's own, `registered/evidence/`, and the gate of the
next execution reads `registered/`. A job cannot read an empty place, so `Open-registered` leaves a
note there, once. All of it works in a local run as it does on SageMaker.
"""

from __future__ import annotations

import hashlib

from compilegate.document.model import Step
from compilegate.job.names import EVIDENCE_FOLDER
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.processing import INPUT, OUTPUT, Uri, processing_step

MODULE = "compilegate.pipelines.programs.registered"
NOTE = "note"


def registered_uri(blueprint: Blueprint, *parts: str) -> str:
    """The workload's own place for what is known of the model that was registered last."""
    deployment, workload = blueprint.deployment, blueprint.workload
    return deployment.uri("workloads", workload.name, "registered", *parts)


def registration(blueprint: Blueprint) -> str:
    """A digest of what is registered with a model: a model that is served in another way is
    registered anew."""
    workload, code = blueprint.workload, blueprint.sources.serving_code
    # By what is the same wherever it is compiled: no name of an account's own.
    named = None if code is None else object_name(code)
    told = repr((workload.model_package_group, workload.serving, named))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def open_step(blueprint: Blueprint) -> Step:
    """Comes before the gate. Cached: a note is enough for many executions."""
    return processing_step(
        blueprint,
        "Open-registered",
        description="So that there is something to read before any model is registered",
        image="gate",
        module=MODULE,
        code=blueprint.sources.gate_code,
        arguments=["open", f"{OUTPUT}/{NOTE}"],
        inputs={},
        output=NOTE,
        kept_at=registered_uri(blueprint, NOTE),
        cached=True,
    )


def keep_step(blueprint: Blueprint, name: str, evidence: Uri) -> Step:
    """Comes after a registration, with the evidence of the job that trained the model."""
    return processing_step(
        blueprint,
        name,
        description="The registered model's evidence, for the next execution's gate",
        image="gate",
        module=MODULE,
        code=blueprint.sources.gate_code,
        arguments=[
            *["keep", f"{INPUT}/{EVIDENCE_FOLDER}", f"{OUTPUT}/{EVIDENCE_FOLDER}"],
            f"--registration={registration(blueprint)}",
        ],
        inputs={EVIDENCE_FOLDER: evidence},
        output=EVIDENCE_FOLDER,
        kept_at=registered_uri(blueprint, EVIDENCE_FOLDER),
    )
