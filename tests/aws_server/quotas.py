"""Service Quotas' list for SageMaker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Quotas:
    """Quotas by name, given by whoever tests."""

    values: dict[str, float] = field(default_factory=dict)

    def list_quotas(self, _request: dict[str, Any], _region: str) -> dict[str, Any]:
        return {
            "Quotas": [
                {
                    "ServiceCode": "sagemaker",
                    "QuotaName": name,
                    "QuotaCode": f"L-{number:08X}",
                    "Value": value,
                    "Adjustable": True,
                }
                for number, (name, value) in enumerate(self.values.items(), start=1)
            ]
        }
