"""The variables that lead a job's AWS clients here, and to no account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# What could lead a job to an account: kept out, wherever it comes from, unless --env passes it.
_ACCOUNT_PREFIXES = (
    "AWS_ENDPOINT_URL",
    "AWS_CONTAINER_",
    "AWS_SSO_",
    "AWS_WEB_IDENTITY_",
    "AWS_ROLE_",
)
_ACCOUNT_NAMES = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CREDENTIAL_EXPIRATION",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    }
)
_DIRECT = "127.0.0.1"


@dataclass(frozen=True)
class JobVariables:
    """What an execution adds to the environment of each of its jobs."""

    aws: Mapping[str, str] = field(default_factory=dict)
    """The endpoint here and its key; they win over what the definition says."""
    given: Mapping[str, str] = field(default_factory=dict)
    """From --env; they win over everything, because they are passed on purpose."""

    def merged(self, base: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """A job's environment; `own` is what its request and its container's contract say."""
        harmless = {name: value for name, value in own.items() if not chooses_account(name)}
        merged = {**base, **harmless}
        for name, value in self.aws.items():
            if chooses_account(name) or name not in merged:
                merged[name] = value
        if self.aws:
            _bypass_proxies(merged)
        return {**merged, **self.given}


NO_VARIABLES = JobVariables()


def chooses_account(name: str) -> bool:
    """Whether a variable decides with whose credentials, or where, AWS is called."""
    return name in _ACCOUNT_NAMES or name.startswith(_ACCOUNT_PREFIXES)


def _bypass_proxies(variables: dict[str, str]) -> None:
    """Through a proxy this machine's own address would be the proxy's."""
    for name in ("no_proxy", "NO_PROXY"):
        hosts = variables.get(name, "")
        if _DIRECT not in hosts.split(","):
            variables[name] = f"{hosts},{_DIRECT}" if hosts else _DIRECT


def endpoint_variables(url: str, key: str, region: str) -> dict[str, str]:
    """What leads boto3, the CLI and others to the endpoint at `url` and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": key,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
