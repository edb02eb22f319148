"""The WSGI application: the stand-in's own operations here, everything else to moto.

POST /stand-in/reset         forget everything, moto included
POST /stand-in/scripts       {"pipeline": NAME, "frames": [FRAME, ...]}: what executions do
POST /stand-in/build-scripts {"repository": NAME, "frames": [FRAME, ...]}: what builds do
POST /stand-in/stack-ends    {"name": ..., "how": ..., "reason": ...}: how an update ends
POST /stand-in/faults        {"operation": NAME, "code": ..., ...}: answer that with an error
POST /stand-in/quotas        {NAME: VALUE}: the account's quotas
GET  /stand-in/calls         [{"operation": NAME, "request": {...}}, ...], oldest first
"""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from botocore import xform_name
from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from tests.aws_server.accounts import (
    GROUP_POLICIES,
    HEADER,
    ServiceError,
    account_of,
    owner_of_request,
)
from tests.aws_server.codebuild import BUILDS, CodeBuild
from tests.aws_server.repairs import end_update
from tests.aws_server.sagemaker import SageMaker

StartResponse = Callable[..., Any]
Operation = Callable[[dict[str, Any], str], dict[str, Any]]
_REGION = re.compile(r"Credential=[^/]+/\d+/([a-z0-9-]+)/")


@dataclass
class Fault:
    """An operation that fails `times` times, after `after` answers."""

    operation: str
    code: str
    message: str = ""
    status: int = 400
    after: int = 0
    times: int = 1_000_000


class Account:
    """The stand-in's own state of one account."""

    def __init__(self, number: str, quotas: dict[str, float]) -> None:
        self.number = number
        self.sagemaker = SageMaker(number)
        self.codebuild = CodeBuild(number, quotas)

    def operation(self, name: str) -> Operation | None:
        """The stand-in's own answer to an operation; None where moto answers it."""
        method = xform_name(name)
        found: Operation | None = getattr(self.sagemaker, method, None)
        return found or getattr(self.codebuild, method, None)


class Application:
    """All accounts, with state from one reset to the next."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        moto_api_backend.reset()
        GROUP_POLICIES.clear()
        self.accounts: dict[str, Account] = {}
        self.quotas: dict[str, float] = {}
        self.faults: list[Fault] = []
        self.calls: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/stand-in/"):
            return _json(start, self._administer(environ["PATH_INFO"], _body(environ)))
        operation, request = _request(environ)
        self.calls.append({"operation": operation, "request": request})
        try:
            self._raise_fault(operation)
            if operation == "ListServiceQuotas":
                return _json(start, self._list_quotas(request["ServiceCode"]))
            own = self._account(account_of(environ)).operation(operation)
            if own is not None:
                return _json(start, own(request, _region(environ)))
            owner = owner_of_request(environ, operation, request)
            if operation == "DescribeModelPackage":
                environ[HEADER] = owner
        except ServiceError as error:
            return error.respond(environ, start)
        if environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB"):
            with self._one_at_a_time:  # moto copies its tables, which others must not change then
                return self._moto(environ, start)
        return self._moto(environ, start)

    def _account(self, number: str) -> Account:
        return self.accounts.setdefault(number, Account(number, self.quotas))

    def _raise_fault(self, operation: str) -> None:
        for fault in self.faults:
            if fault.operation != operation or fault.times == 0:
                continue
            if fault.after > 0:
                fault.after -= 1
                continue
            fault.times -= 1
            raise ServiceError(fault.code, fault.message, fault.status)

    def _list_quotas(self, service: str) -> dict[str, Any]:
        listed = [
            {"ServiceCode": service, "QuotaName": name, "QuotaCode": f"L-{number}", "Value": value}
            for number, (name, value) in enumerate(self.quotas.items(), start=1)
            if (service == "codebuild") == name.startswith(BUILDS)
        ]
        return {"Quotas": [{**each, "Adjustable": True} for each in listed]}

    def _administer(self, path: str, body: bytes) -> Any:
        given = json.loads(body or b"null") or {}
        account = self._account(given.pop("account", DEFAULT_ACCOUNT_ID))
        match path.removeprefix("/stand-in/"):
            case "reset":
                self._reset()
            case "scripts":
                account.sagemaker.scripts[given["pipeline"]] = given["frames"]
            case "build-scripts":
                account.codebuild.scripts[given["repository"]] = given["frames"]
            case "stack-ends":
                end_update(account.number, "us-east-1", **given)
            case "faults":
                self.faults.append(Fault(**given))
            case "quotas":
                self.quotas.update(given)
            case "calls":
                return self.calls
        return {}


def _body(environ: dict[str, Any]) -> bytes:
    """The request's body, which stays readable for the next application."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _request(environ: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The operation's name and its request; for S3 the name is `S3:METHOD`."""
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target is not None:
        return target.rpartition(".")[2], json.loads(_body(environ) or b"{}")
    if "x-www-form-urlencoded" in environ.get("CONTENT_TYPE", ""):
        form = {key: values[0] for key, values in parse_qs(_body(environ).decode()).items()}
        return form.pop("Action", "?"), form
    return f"S3:{environ['REQUEST_METHOD']}", {"path": environ["PATH_INFO"]}


def _region(environ: dict[str, Any]) -> str:
    found = _REGION.search(environ.get("HTTP_AUTHORIZATION", ""))
    return "us-east-1" if found is None else found.group(1)


def _json(start: StartResponse, document: Any) -> Iterable[bytes]:
    start("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
    return [json.dumps(document).encode()]
