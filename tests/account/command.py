"""The real command as a process that takes the server for AWS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.aws_server.client import PROJECT, AwsServer

COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main(prog_name='compilegate')"]


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
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        env=environment(aws, **more),
    )
