"""What may be changed from one execution to the next: the pipeline's parameters by name, and what
each may be. The definition declares them; a schedule may give them values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from compilegate.declaration_errors import matching

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


InstanceType = Annotated[
    str, matching(r"^ml\.[a-z0-9-]+\.[a-z0-9-]+$", "an instance type such as ml.g5.xlarge")
]
AttemptNumber = Annotated[str, matching(r"^[1-9]\d{0,3}$", "a number from 1 to 9999")]
RuntimeSeconds = Annotated[int, Field(ge=60, le=LONGEST_JOB_SECONDS)]
DataUri = Annotated[
    str, matching(r"^s3://[a-z0-9][a-z0-9.-]+/\S+$", "an address such as s3://bucket/prefix")
]
