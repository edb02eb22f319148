"""What moto 5.2 gets wrong about the model registry and batch transforms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moto.sagemaker.exceptions import ResourceInUseException
from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends

from tests.aws_server.faults import ServiceError

Request = dict[str, Any]


@dataclass
class Packages:
    """What moto lacks of the model registry."""

    account: str

    @property
    def operations(self) -> dict[str, Callable[[Request, str], dict[str, Any]]]:
        """By the name of the API's operation."""
        return {"DeleteModelPackage": self.delete}

    def delete(self, request: Request, region: str) -> dict[str, Any]:
        packages = sagemaker_backends[self.account][region].model_packages
        arn = request["ModelPackageName"]
        found = [name for name, package in packages.items() if package.arn == arn]
        if not found:
            raise ServiceError("ValidationException", f"ModelPackage {arn} does not exist.")
        del packages[found[0]]
        return {}


def repair_registry() -> None:
    """An update of moto's takes away what it does not name: metadata, description and approval."""
    original = SageMakerModelBackend.update_model_package

    def update_model_package(self: Any, model_package_arn: str, *given: Any, **named: Any) -> str:
        there = self.model_packages.get(
            self.model_package_name_mapping.get(model_package_arn, model_package_arn)
        )
        kept = {} if there is None else dict(there.customer_metadata_properties or {})
        why = None if there is None else there.approval_description
        status = None if there is None else there.model_approval_status
        arn: str = original(self, model_package_arn, *given, **named)
        there.customer_metadata_properties = {**kept, **(there.customer_metadata_properties or {})}
        there.approval_description = there.approval_description or why
        there.model_approval_status = there.model_approval_status or status
        return arn

    SageMakerModelBackend.update_model_package = update_model_package


def repair_transforms() -> None:
    """moto's takes a name twice, and forgets the first job."""
    original = SageMakerModelBackend.create_transform_job

    def create_transform_job(self: Any, transform_job_name: str, *given: Any, **named: Any) -> Any:
        if transform_job_name in self.transform_jobs:
            raise ResourceInUseException(
                "Job name must be unique, and a job with this name already exists"
            )
        return original(self, transform_job_name, *given, **named)

    SageMakerModelBackend.create_transform_job = create_transform_job
