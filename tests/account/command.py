"""The real command as a process that takes the server for AWS."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import command
from tests.aws_server.client import PROJECT, AwsServer


def environment(aws: AwsServer, **more: str) -> dict[str, str]:
    """Looks without pause, and asks each thing once, so that nothing waits."""
    return {
        **aws.environment,
        "PYTHONPATH": str(PROJECT),
        "COMPILEGATE_POLL_SECONDS": "0",
        "AWS_MAX_ATTEMPTS": "1",
        **more,
    }


def compilegate(
    aws: AwsServer, project: Path, *arguments: str | Path, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a project's folder; `more` is added to its environment."""
    return command.compilegate(*arguments, cwd=project, env=environment(aws, **more))
