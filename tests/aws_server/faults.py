"""Errors that the server answers with, as the services write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ServiceError(Exception):
    """An error answer."""

    code: str
    message: str = ""
    status: int = 400

    def respond(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """In the protocol of whoever asked: JSON for a target header, else XML."""
        if "HTTP_X_AMZ_TARGET" in environ:
            kind = "application/x-amz-json-1.1"
            text = json.dumps({"__type": self.code, "message": self.message})
        else:
            kind = "text/xml"
            inner = f"<Error><Code>{self.code}</Code><Message>{self.message}</Message></Error>"
            form = "form" in environ.get("CONTENT_TYPE", "")
            text = f"<ErrorResponse>{inner}</ErrorResponse>" if form else inner
        start(f"{self.status} Error", [("Content-Type", kind)])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [text.encode()]


@dataclass
class Faults:
    """Which operations fail next."""

    waiting: list[dict[str, Any]] = field(default_factory=list)

    def add(  # noqa: PLR0917  a fault's members
        self,
        operation: str,
        code: str,
        message: str = "",
        status: int = 400,
        after: int = 0,
        times: int = 1_000_000,
    ) -> None:
        """Let `operation` fail `times` times, after it has been answered `after` times."""
        error = ServiceError(code, message, status)
        self.waiting.append(
            {"operation": operation, "error": error, "after": after, "times": times}
        )

    def check(self, operation: str) -> None:
        """Raises the ServiceError that is due for this operation."""
        for fault in self.waiting:
            if fault["operation"] != operation or fault["times"] == 0:
                continue
            if fault["after"] > 0:
                fault["after"] -= 1
                continue
            fault["times"] -= 1
            raise fault["error"]
