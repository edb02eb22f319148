"""What may be changed from one execution to the next: the pipeline's parameters by name, and what
each may be. The definition declares them; a schedule may give them values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, TypeAdapter, ValidationError

DATA = "Data"
APPROVAL = "ModelApprovalStatus"
INSTANCE_TYPE = "TrainingInstanceType"
MAX_RUNTIME = "MaxRuntimeInSeconds"
ATTEMPT = "Attempt"
"""Raised where the machines lost a candidate's job: the service keeps a step that ended well in its
cache, and trains it again where its request has another value of this."""

LONGEST_JOB_SECONDS = 2_419_200
"""28 days, the service's limit."""

Approval = Literal["PendingManualApproval", "Approved", "Rejected"]


def _no_local_mode(value: Any) -> Any:
    if value in ("local", "local_gpu"):
        raise ValueError(
            f"is {value!r}, expected an instance type of SageMaker, as in 'ml.g5.xlarge'; "
            "`compilegate run` trains on this machine whatever type is declared, and refuses "
            "Training Compiler and Neuron there, which are in AWS's images only"
        )
    return value


InstanceType = Annotated[
    str,
    BeforeValidator(_no_local_mode),
    StringConstraints(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$"),
]
AttemptNumber = Annotated[str, StringConstraints(pattern=r"^[1-9]\d{0,3}$")]
RuntimeSeconds = Annotated[int, Field(ge=60, le=LONGEST_JOB_SECONDS)]
DataUri = Annotated[str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]+/\S+$")]

_EXPECTED: Mapping[str, tuple[TypeAdapter[Any], str]] = {
    DATA: (TypeAdapter(DataUri), "the s3:// URI of a folder"),
    APPROVAL: (TypeAdapter(Approval), "'PendingManualApproval', 'Approved' or 'Rejected'"),
    INSTANCE_TYPE: (TypeAdapter(InstanceType), "an instance type, as in 'ml.g5.xlarge'"),
    MAX_RUNTIME: (
        TypeAdapter(RuntimeSeconds),
        f"a whole number from 60 to {LONGEST_JOB_SECONDS}",
    ),
    ATTEMPT: (TypeAdapter(AttemptNumber), "a number from '1' on, as text"),
}


def check_parameters(values: Mapping[str, str | int]) -> None:
    """Raises ValueError for a name or a value that the pipeline does not take."""
    for name, value in values.items():
        if name not in _EXPECTED:
            raise ValueError(
                f"{name} is not a parameter of the pipeline, expected {', '.join(_EXPECTED)}"
            )
        adapter, expected = _EXPECTED[name]
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError as error:
            raise ValueError(f"{name} is {value!r}, expected {expected}") from error
