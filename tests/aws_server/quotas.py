"""Service Quotas' lists for SageMaker and CodeBuild."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

BUILDS = "Concurrently running builds"


@dataclass
class Quotas:
    """Quotas by name, given by whoever tests."""

    values: dict[str, float] = field(default_factory=dict)

    def list_quotas(self, request: dict[str, Any], _region: str) -> dict[str, Any]:
        service = request["ServiceCode"]
        return {
            "Quotas": [
                {
                    "ServiceCode": service,
                    "QuotaName": name,
                    "QuotaCode": f"L-{number:08X}",
                    "Value": value,
                    "Adjustable": True,
                }
                for number, (name, value) in enumerate(self.values.items(), start=1)
                if (service == "codebuild") == name.startswith(BUILDS)
            ]
        }
