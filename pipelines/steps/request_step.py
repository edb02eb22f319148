"""A pipeline step that holds a plain API request.

The SDK's own trainer and processor steps upload code under a timestamp and call AWS while they
compile, so the same workload would never give the same definition, and the step cache would never
be hit. A plain request does neither, and reaches every field of the API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagemaker.core.workflow.properties import Properties, PropertyFile
from sagemaker.mlops.workflow.retry import RetryPolicy
from sagemaker.mlops.workflow.steps import CacheConfig, ConfigurableRetryStep, StepTypeEnum

_DESCRIPTION_OF = {
    StepTypeEnum.TRAINING: "DescribeTrainingJobResponse",
    StepTypeEnum.PROCESSING: "DescribeProcessingJobResponse",
    StepTypeEnum.REGISTER_MODEL: "DescribeModelPackageOutput",
}


class RequestStep(ConfigurableRetryStep):
    """One step of type Training, Processing or RegisterModel with its request as it is sent."""

    def __init__(
        self,
        name: str,
        step_type: StepTypeEnum,
        request: Mapping[str, Any],
        *,
        cache: CacheConfig | None = None,
        retries: Sequence[RetryPolicy] = (),
        property_files: Sequence[PropertyFile] = (),
        description: str | None = None,
    ) -> None:
        super().__init__(name, step_type, description=description, retry_policies=list(retries))
        self._request = dict(request)
        self._property_files = list(property_files)
        self._properties = Properties(
            step_name=name, step=self, shape_name=_DESCRIPTION_OF[step_type]
        )
        self.cache_config = cache
        # The SDK's compiler looks for these two on every step.
        self.step_args: None = None
        self.property_files = self._property_files

    @property
    def arguments(self) -> dict[str, Any]:
        return self._request

    @property
    def properties(self) -> Properties:
        return self._properties

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = super().to_request()
        if self.cache_config is not None:
            request.update(self.cache_config.config)
        if self._property_files:
            request["PropertyFiles"] = [file.expr for file in self._property_files]
        return request
