"""What can go wrong between here and the account, by who has to act on it.

boto3 has a class for each way to fail and a code for each service's refusal. Here each of them is
one sentence: the request, the answer and what to do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from compilegate.errors import CompilegateError


class AwsError(CompilegateError):
    """Any error of the AWS client. The message is one sentence for the person at the terminal."""


class DeniedError(AwsError):
    """The credentials do not allow an action."""


class NotDeployedError(AwsError):
    """A stack, its output or a pipeline is not there."""


class VanishedError(AwsError):
    """An execution that does not exist, or no longer does."""


class WebPageError(BotoCoreError):
    """What answered is not AWS: it is the page of a proxy, or of a portal that wants a sign-in."""

    fmt = "a web page came back, with status {status}"


SERVER_FAULTS = 500
"""Statuses from here on are of a server that failed; botocore tries those again by itself."""
_MISSING_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.ProfileNotFound,
    boto.TokenRetrievalError,
    boto.NoAuthTokenError,
    boto.SSOError,
    boto.LoginError,
)
_NO_ANSWER = (
    boto.ConnectionError,
    boto.ConnectionClosedError,
    boto.ReadTimeoutError,
    boto.HTTPClientError,
    WebPageError,
)
_RENEW = "sign in again, or set AWS_PROFILE, and try again"
_REFUSALS = {
    r"ExpiredToken(Exception)?|RequestExpired|TokenRefreshRequired": (
        f"the AWS credentials have expired; {_RENEW}"
    ),
    r"AuthFailure|IncompleteSignature|InvalidSignatureException|SignatureDoesNotMatch|"
    r"InvalidAccessKeyId|InvalidClientTokenId|MissingAuthenticationToken|"
    r"UnrecognizedClientException": f"AWS does not accept the credentials ({{code}}); {_RENEW}",
    # An answer to HEAD has no body that could hold a code, so its status stands for one.
    r"400": "{operation} was refused without a reason, as S3 does when credentials have expired; "
    f"{_RENEW}",
    r"Throttl(ed|ing)(Exception)?|RequestThrottled|TooManyRequestsException|SlowDown|"
    r"LimitExceededException|RequestLimitExceeded": (
        "AWS refused {operation} as too frequent ({code}), even at attempt {tries}; try again later"
    ),
    r".*": "{operation} was refused ({code}): {message}",
}
"""Why nothing came of a request, by the code of the answer."""
_DENIED = re.compile(r"AccessDenied(Exception)?|UnauthorizedOperation|Forbidden|403")
_ABSENT = re.compile(r"does not exist|could not find|not found|no such", re.IGNORECASE)
_DENIED_ACTION = re.compile(
    r"not authorized to perform:? (?P<action>\S+)(?: on resource:? (?P<resource>\S+))?"
)


@contextmanager
def aws_errors(what: str) -> Iterator[None]:
    """Turn boto3's errors into sentences; `what` completes "cannot ...": `read the stack X`.

    Raises an AwsError of the kind that the failure is.
    """
    try:
        yield
    except ClientError as error:
        raise _refusal(what, error) from error
    except boto.NoRegionError as error:
        raise no_region() from error
    except _MISSING_CREDENTIALS as error:
        raise AwsError(
            f"cannot {what}: there are no AWS credentials ({error}); {_RENEW}"
        ) from error
    except _NO_ANSWER as error:
        raise _unreachable(what, _first_line(error)) from error
    except BotoCoreError as error:
        raise AwsError(f"cannot {what}: {_first_line(error)}") from error


@contextmanager
def configuration_errors(what: str) -> Iterator[None]:
    """As `aws_errors`, and for what botocore raises about settings that it cannot use."""
    try:
        with aws_errors(what):
            yield
    except ValueError as error:
        raise AwsError(
            f"cannot {what}: {_first_line(error)}; check the variables AWS_* and the AWS profile"
        ) from error


@contextmanager
def absent_is(absence: AwsError | None) -> Iterator[None]:
    """Within `aws_errors`: raise this one when the service says that what was named is not there;
    without one, go on behind the block."""
    try:
        yield
    except ClientError as error:
        if not _is_absent(error):
            raise
        if absence is not None:
            raise absence from error


absent_allowed = functools.partial(absent_is, None)


def _is_absent(error: ClientError) -> bool:
    """Each service says in its own way that something does not exist."""
    details = error.response.get("Error", {})
    code, message = details.get("Code", ""), details.get("Message", "")
    if code in {"404", "NoSuchKey", "NoSuchBucket"} or "NotFound" in code:
        return True
    return code in {"ValidationException", "ValidationError"} and bool(_ABSENT.search(message))


def _refusal(what: str, error: ClientError) -> AwsError:
    details, operation = error.response.get("Error", {}), error.operation_name
    code, message = (
        details.get("Code", ""),
        _first_line(details.get("Message") or "no reason given"),
    )
    if _DENIED.fullmatch(code):
        return _denial(what, operation, message)
    if code.isdecimal() and int(code) >= SERVER_FAULTS:
        return _unreachable(what, f"{code} {message}")
    tries = 1 + int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0))
    why = next(text for codes, text in _REFUSALS.items() if re.fullmatch(codes, code))
    return AwsError(
        f"cannot {what}: {why.format(operation=operation, code=code, tries=tries, message=message)}"
    )


def _unreachable(what: str, instead: str) -> AwsError:
    return AwsError(
        f"cannot {what}: AWS does not answer ({instead}); "
        "check the network, a proxy in between, the region and AWS_ENDPOINT_URL"
    )


def _denial(what: str, operation: str, message: str) -> DeniedError:
    found, denied = _DENIED_ACTION.search(message), operation
    if found is not None:
        resource = (found["resource"] or "").rstrip(".")
        denied = found["action"].rstrip(".") + (f" on {resource}" if resource else "")
    return DeniedError(
        f"cannot {what}: the credentials do not allow {denied}; ask for that permission"
    )


def no_region() -> AwsError:
    return AwsError("no AWS region is set; set AWS_REGION, or region in infra/settings.toml")


def _first_line(text: object) -> str:
    return (str(text).strip().splitlines() or ["no reason given"])[0].rstrip(".")
