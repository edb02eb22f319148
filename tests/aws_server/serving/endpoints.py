"""Endpoints that can be updated, which moto's cannot. CloudFormation says how a change ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.sagemaker.models import sagemaker_backends

from tests.aws_server.faults import ServiceError

Request = dict[str, Any]


@dataclass
class Endpoint:
    name: str
    config: str
    made: float = field(default_factory=time.time)


@dataclass
class Endpoints:
    """All endpoints of the account."""

    account: str
    there: dict[str, Endpoint] = field(default_factory=dict)

    @property
    def operations(self) -> dict[str, Callable[[Request, str], dict[str, Any]]]:
        """By the name of the API's operation."""
        return {
            "CreateEndpoint": self.create,
            "DescribeEndpoint": self.describe,
            "UpdateEndpoint": self.update,
            "DeleteEndpoint": self.delete,
            "ListEndpoints": self.list_all,
        }

    def create(self, request: Request, region: str) -> dict[str, Any]:
        name = request["EndpointName"]
        if name in self.there:
            raise ServiceError("ValidationException", "Cannot create already existing endpoint")
        self.there[name] = Endpoint(name, self._config(request, region))
        return {"EndpointArn": self._arn(name, region)}

    def update(self, request: Request, region: str) -> dict[str, Any]:
        found = self._found(request)
        found.config = self._config(request, region)
        return {"EndpointArn": self._arn(found.name, region)}

    def describe(self, request: Request, region: str) -> dict[str, Any]:
        found = self._found(request)
        return {
            "EndpointName": found.name,
            "EndpointArn": self._arn(found.name, region),
            "EndpointConfigName": found.config,
            "EndpointStatus": "InService",
            "CreationTime": found.made,
            "LastModifiedTime": found.made,
        }

    def list_all(self, _request: Request, region: str) -> dict[str, Any]:
        """All on one page."""
        return {
            "Endpoints": [
                {
                    "EndpointName": name,
                    "EndpointArn": self._arn(name, region),
                    "CreationTime": found.made,
                    "LastModifiedTime": found.made,
                    "EndpointStatus": "InService",
                }
                for name, found in self.there.items()
            ]
        }

    def delete(self, request: Request, _region: str) -> dict[str, Any]:
        del self.there[self._found(request).name]
        return {}

    def _found(self, request: Request) -> Endpoint:
        name = request["EndpointName"]
        if name not in self.there:
            raise ServiceError("ValidationException", f'Could not find endpoint "{name}".')
        return self.there[name]

    def _config(self, request: Request, region: str) -> str:
        config: str = request["EndpointConfigName"]
        if config not in sagemaker_backends[self.account][region].endpoint_configs:
            raise ServiceError("ValidationException", f'Could not find "{config}".')
        return config

    def _arn(self, name: str, region: str) -> str:
        return f"arn:aws:sagemaker:{region}:{self.account}:endpoint/{name}"
