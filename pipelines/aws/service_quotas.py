"""The account's quotas of SageMaker, as Service Quotas lists them."""

from __future__ import annotations

from pipelines.aws.errors import asking
from pipelines.aws.session import AwsSession


def read_quotas(session: AwsSession) -> dict[str, float]:
    """Value by name. Raises AwsError."""
    with asking("read the account's quotas of SageMaker"):
        pages = (
            session.client("service-quotas")
            .get_paginator("list_service_quotas")
            .paginate(ServiceCode="sagemaker")
        )
        return {
            quota["QuotaName"]: quota["Value"]
            for page in pages
            for quota in page["Quotas"]
            if "Value" in quota
        }
