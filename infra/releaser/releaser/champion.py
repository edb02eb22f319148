"""The archive that the next execution compares its model with: that of the model approved last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from releaser.approvals import Approval
from releaser.facts import Facts

FACT = "champion"


@dataclass(frozen=True)
class Champion:
    """The place of the champion's archive."""

    sagemaker: Any
    s3: Any
    facts: Facts
    bucket: str
    key: str

    def become(self, wanted: Approval | None) -> str:
        """Let this model be the champion, or none; says what came of it."""
        there = self.facts.read(FACT)
        name = "" if wanted is None else wanted.arn
        if there is not None and there["arn"] == name:
            return "the same"
        if wanted is None:
            # Before the first approval there is nothing to take away, and nothing is.
            if there is None:
                return "none"
            self.s3.delete_object(Bucket=self.bucket, Key=self.key)
        else:
            self.s3.copy(_object(self._archive(wanted)), self.bucket, self.key)
        self.facts.write(FACT, {"arn": name})
        return name or "none"

    def _archive(self, wanted: Approval) -> str:
        described = self.sagemaker.describe_model_package(ModelPackageName=wanted.arn)
        (container,) = described["InferenceSpecification"]["Containers"]
        return str(container["ModelDataUrl"])


def _object(uri: str) -> dict[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": key}
