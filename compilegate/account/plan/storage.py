"""What a workload keeps in the bucket, and what that costs.

Registered models and verdicts never expire; what else jobs wrote does, as the settings say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.access.layout import (
    checkpoints_prefix,
    data_prefix,
    executions_prefix,
    models_prefix,
    registered_prefix,
    training_prefix,
    verdicts_prefix,
)
from compilegate.account.errors import asking
from compilegate.account.session import AwsSession

GIGABYTE = 2**30
USD_PER_GIGABYTE_MONTH = 0.023
"""S3 Standard, the first 50 TB, in us-east-1; between 0.021 and 0.041 elsewhere. Without requests,
and without older versions of objects."""
PLACES = {
    "models": models_prefix,
    "verdicts": verdicts_prefix,
    "registered": registered_prefix,
    "training": training_prefix,
    "executions": executions_prefix,
    "checkpoints": checkpoints_prefix,
    "data": data_prefix,
}
PERMANENT = ("models", "verdicts", "registered", "data")


@dataclass(frozen=True)
class Storage:
    """What lies in the bucket for one workload."""

    bytes_of: Mapping[str, int]
    """By what it is: models, verdicts, training, and so on."""
    newest_model: int
    """Bytes of the model that was registered last; 0 before the first."""
    starts_a_year: int
    """By the schedule; 0 without one that is on."""

    @property
    def total(self) -> int:
        return sum(self.bytes_of.values())

    @property
    def permanent(self) -> int:
        return sum(self.bytes_of.get(kind, 0) for kind in PERMANENT)

    @property
    def growth(self) -> int:
        """Bytes that a year of the schedule adds for good, if each start registers a model."""
        return self.newest_model * self.starts_a_year


def usd_a_month(stored: int) -> float:
    return stored / GIGABYTE * USD_PER_GIGABYTE_MONTH


def read_storage(session: AwsSession, bucket: str, workload: str, starts_a_year: int) -> Storage:
    """Raises AwsError."""
    pages = session.client("s3").get_paginator("list_objects_v2")
    sizes: dict[str, int] = {}
    newest_model, newest = 0, None
    with asking(f"list what {workload} keeps in {bucket}"):
        for kind, prefix in PLACES.items():
            sizes[kind] = 0
            for page in pages.paginate(Bucket=bucket, Prefix=prefix(workload)):
                for item in page.get("Contents", []):
                    sizes[kind] += item["Size"]
                    if kind == "models" and (newest is None or item["LastModified"] >= newest):
                        newest, newest_model = item["LastModified"], item["Size"]
    return Storage(sizes, newest_model, starts_a_year)
