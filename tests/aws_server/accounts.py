"""Several accounts on one server: whose request it is, what it may read, how it is refused.

An account is that of the credentials, as moto has it: those of a role that was assumed are of the
role's account. moto looks for a model only in the caller's account and lets everybody read every
bucket. Here the policy of the other account's bucket or model package group decides, as in AWS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from moto.iam.models import get_account_id_from
from moto.s3.models import s3_backends

HEADER = "HTTP_X_MOTO_ACCOUNT_ID"
_KEY = re.compile(r"Credential=([^/]+)/")
GROUP_POLICIES: dict[str, Mapping[str, Any]] = {}
"""By the ARN of the model package group, which moto keeps without."""


@dataclass(frozen=True)
class ServiceError(Exception):
    """An error answer, as the services write it."""

    code: str
    message: str = ""
    status: int = 400

    def respond(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer in the caller's protocol: JSON for a target header, else XML."""
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


def account_of(environ: Mapping[str, Any]) -> str:
    """The caller's account."""
    if HEADER in environ:
        return str(environ[HEADER])
    found = _KEY.search(environ.get("HTTP_AUTHORIZATION", ""))
    return str(get_account_id_from("" if found is None else found.group(1)))


def owner_of_request(environ: Mapping[str, Any], operation: str, request: Mapping[str, Any]) -> str:
    """The account that owns what is read. Raises ServiceError where its policies refuse."""
    caller = account_of(environ)
    if operation == "DescribeModelPackage":
        return _owner_of_model(str(request["ModelPackageName"]), caller)
    for bucket, key in _objects(environ, operation):
        owner = s3_backends.bucket_accounts.get(bucket, ("", caller))[1]
        if owner != caller:
            _refuse_unless_shared(bucket, key, owner, caller)
    return caller


def _owner_of_model(arn: str, caller: str) -> str:
    if not arn.startswith("arn:"):
        return caller
    *_, owner, resource = arn.split(":")
    if owner != caller:
        group = arn.replace(":model-package/", ":model-package-group/").rpartition("/")[0]
        policy = GROUP_POLICIES.get(group, {})
        if not _allows(policy, "sagemaker:DescribeModelPackage", arn, caller):
            raise ServiceError(
                "AccessDeniedException",
                f"arn:aws:iam::{caller}:root is not authorized to perform: "
                f"sagemaker:DescribeModelPackage on resource: {resource}",
            )
    return owner


def _objects(environ: Mapping[str, Any], operation: str) -> Iterator[tuple[str, str]]:
    """The objects that a request of S3 reads."""
    if operation in {"S3:GET", "S3:HEAD"}:
        yield _split(environ["PATH_INFO"])
    source = environ.get("HTTP_X_AMZ_COPY_SOURCE")
    if source is not None:
        yield _split(source.partition("?")[0])


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = unquote(path).lstrip("/").partition("/")
    return bucket, key


def _refuse_unless_shared(bucket: str, key: str, owner: str, caller: str) -> None:
    backend = s3_backends[owner]["aws"]
    policy = json.loads(backend.buckets[bucket].policy or b"{}")
    if not _allows(policy, "s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", caller):
        raise ServiceError("AccessDenied", f"Access Denied: {key}", status=403)


def _allows(policy: Mapping[str, Any], action: str, resource: str, caller: str) -> bool:
    """Whether a statement lets that account in; conditions are not looked at, nor denials, which
    here only refuse plain HTTP."""
    return any(
        statement["Effect"] == "Allow"
        and f"arn:aws:iam::{caller}:root" in _listed(statement.get("Principal", {}).get("AWS"))
        and action in _listed(statement["Action"])
        and any(fnmatchcase(resource, each) for each in _listed(statement["Resource"]))
        for statement in policy.get("Statement", [])
    )


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
