"""Which arguments of a step its cache goes by, as SageMaker documents them."""

from __future__ import annotations

from collections.abc import Mapping

KEY_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "Training": (
        "AlgorithmSpecification",
        "CheckpointConfig",
        "DebugHookConfig",
        "DebugRuleConfigurations",
        "Environment",
        "HyperParameters",
        "InputDataConfig",
    ),
    "Processing": ("AppSpecification", "Environment", "ProcessingInputs"),
}
"""Members of the request, by type of step."""
