"""A model of SageMaker's for a model package: what endpoints and transforms run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from releaser.approvals import Approval
from releaser.settings import Serving

SEPARATOR = "--"
"""No workload's name has two hyphens, so that none of `news` reads like one of `news-topics`."""
_THERE = ("already exist", "Cannot create already existing")


@dataclass(frozen=True)
class Models:
    """Makes models and what hangs off them, each once: all of them are named by what they say."""

    sagemaker: Any
    serving: Serving

    def configuration(self, approval: Approval) -> str:
        """The name of what runs after this approval: with other settings it is another. What a
        model says cannot be changed, so a change of `[serving]` must not find an old one."""
        said = json.dumps(asdict(self.serving), sort_keys=True)
        digest = hashlib.sha256(f"{approval.arn} {said}".encode()).hexdigest()[:8]
        return f"{self.serving.name}{SEPARATOR}{approval.version}-{digest}"

    def make(self, approval: Approval) -> str:
        """The model of this package; returns its name."""
        name = self.configuration(approval)
        request: dict[str, Any] = {
            "ModelName": name,
            "Containers": [{"ModelPackageName": approval.arn}],
            "ExecutionRoleArn": self.serving.role_arn,
            "EnableNetworkIsolation": self.serving.isolation,
            "Tags": self.serving.tags,
        }
        if self.serving.subnets:
            request["VpcConfig"] = {
                "Subnets": list(self.serving.subnets),
                "SecurityGroupIds": list(self.serving.security_groups),
            }
        once(self.sagemaker.create_model, **request)
        return name


def once(create: Any, **request: Any) -> bool:
    """Whether this call made it; not where it was there already."""
    try:
        create(**request)
    except ClientError as error:
        details = error.response["Error"]
        if details["Code"] == "ResourceInUse" or any(
            word in details.get("Message", "") for word in _THERE
        ):
            return False
        raise
    return True
