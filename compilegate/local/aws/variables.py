"""The variables that lead a job's AWS clients here, and to no account."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# What could lead a job to an account: kept out, wherever it comes from, unless --env passes it.
_CHOOSES_ACCOUNT = re.compile(
    r"AWS_((ENDPOINT_URL|CONTAINER_|SSO_|WEB_IDENTITY_|ROLE_|EC2_METADATA_).*"
    r"|ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|SECURITY_TOKEN|CREDENTIAL_EXPIRATION"
    r"|PROFILE|DEFAULT_PROFILE|CONFIG_FILE|SHARED_CREDENTIALS_FILE"
    r"|IGNORE_CONFIGURED_ENDPOINT_URLS)"
)
_DIRECT = "127.0.0.1"


@dataclass(frozen=True)
class JobVariables:
    """What an execution adds to the environment of each of its jobs."""

    aws: Mapping[str, str] = field(default_factory=dict)
    """The endpoint here and its key; they win over what the definition says."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Variables from --env, which override all others."""

    def merged(self, base: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """A job's environment; `own` is what its request and its container's contract say."""
        harmless = {
            name: value for name, value in own.items() if not _CHOOSES_ACCOUNT.fullmatch(name)
        }
        merged = {**base, **harmless}
        for name, value in self.aws.items():
            if _CHOOSES_ACCOUNT.fullmatch(name) or name not in merged:
                merged[name] = value
        if self.aws:
            _bypass_proxies(merged)
        return {**merged, **self.given}


NO_VARIABLES = JobVariables()


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
