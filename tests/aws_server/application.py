"""The WSGI application: the stand-in's own operations here, everything else to moto."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from tests.aws_server.accounts import GROUP_POLICIES, HEADER, account_asked, account_of
from tests.aws_server.builds import Builds
from tests.aws_server.executions import Executions
from tests.aws_server.faults import Faults, ServiceError
from tests.aws_server.quotas import Quotas
from tests.aws_server.serving import Endpoints, Packages

StartResponse = Callable[..., Any]
_REGION = re.compile(r"Credential=[^/]+/\d+/([a-z0-9-]+)/")


class Account:
    """What the stand-in itself knows of one account."""

    def __init__(self, number: str, quotas: Quotas) -> None:
        self.executions = Executions(number)
        self.builds = Builds(number, quotas)
        self.endpoints = Endpoints(number)
        self.packages = Packages(number)

    @property
    def operations(self) -> dict[str, Callable[[dict[str, Any], str], dict[str, Any]]]:
        own = (self.executions, self.builds, self.endpoints, self.packages)
        return {name: call for each in own for name, call in each.operations.items()}


class Application:
    """Accounts, with state from one reset to the next."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        moto_api_backend.reset()
        GROUP_POLICIES.clear()
        self.accounts: dict[str, Account] = {}
        self.quotas = Quotas()
        self.faults = Faults()
        self.calls: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/stand-in/"):
            return _json(start, self._administer(environ["PATH_INFO"], _body(environ)))
        operation, request = _asked(environ)
        self.calls.append({"operation": operation, "request": request})
        try:
            self.faults.check(operation)
            own = self._own(operation, account_of(environ))
            if own is not None:
                return _json(start, own(request, _region(environ)))
            asked = account_asked(environ, operation, request)
            if operation == "DescribeModelPackage":
                environ[HEADER] = asked
        except ServiceError as error:
            return error.respond(environ, start)
        if environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB"):
            with self._one_at_a_time:  # moto copies its tables, which others must not change then
                return self._moto(environ, start)
        return self._moto(environ, start)

    def _account(self, number: str) -> Account:
        return self.accounts.setdefault(number, Account(number, self.quotas))

    def _own(
        self, operation: str, account: str
    ) -> Callable[[dict[str, Any], str], dict[str, Any]] | None:
        if operation == "ListServiceQuotas":
            return self.quotas.list_quotas
        return self._account(account).operations.get(operation)

    def _administer(self, path: str, body: bytes) -> Any:
        given = json.loads(body or b"null") or {}
        account = self._account(given.pop("account", DEFAULT_ACCOUNT_ID))
        match path.removeprefix("/stand-in/"):
            case "reset":
                self._reset()
            case "scripts":
                account.executions.scripts[given["pipeline"]] = given["frames"]
            case "build-scripts":
                account.builds.scripts[given["repository"]] = given["frames"]
            case "endpoint-ends":
                account.endpoints.end(**given)
            case "faults":
                self.faults.add(**given)
            case "quotas":
                self.quotas.values.update(given)
            case "calls":
                return self.calls
        return {}


def _body(environ: dict[str, Any]) -> bytes:
    """The request's body, which stays readable for the next application."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _asked(environ: dict[str, Any]) -> tuple[str, dict[str, Any]]:
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
