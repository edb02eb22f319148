"""What may be changed from one execution to the next without a new definition."""

from __future__ import annotations

from dataclasses import dataclass

from sagemaker.core.workflow.parameters import Parameter, ParameterInteger, ParameterString

from pipelines.definition.deployment import Sources
from pipelines.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The pipeline's parameters, with the workload's own values as defaults."""

    data: ParameterString
    approval: ParameterString
    instance_type: ParameterString
    max_runtime_seconds: ParameterInteger

    def in_order(self) -> list[Parameter]:
        return [self.data, self.approval, self.instance_type, self.max_runtime_seconds]


def parameters_of(workload: Workload, sources: Sources) -> Parameters:
    return Parameters(
        data=ParameterString("Data", default_value=sources.data),
        approval=ParameterString(
            "ModelApprovalStatus",
            default_value=workload.registry.approval,
            enum_values=["PendingManualApproval", "Approved", "Rejected"],
        ),
        instance_type=ParameterString(
            "TrainingInstanceType", default_value=workload.compute.instance_type
        ),
        max_runtime_seconds=ParameterInteger(
            "MaxRuntimeInSeconds", default_value=workload.compute.max_runtime_seconds
        ),
    )
