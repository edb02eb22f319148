"""The last lines that a job printed, from CloudWatch Logs."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from compilegate.account.errors import asking, is_absent
from compilegate.account.executions.console import LOG_GROUPS, StartedJob
from compilegate.account.session import AwsSession

LAST_LINES = 20


def last_lines(session: AwsSession, job: StartedJob, most: int = LAST_LINES) -> list[str]:
    """What the job printed last, oldest first; nothing when it printed nothing. Raises AwsError.

    A job on several machines has a stream for each; the one that was written to last counts.
    """
    group = LOG_GROUPS.get(job.kind)
    if group is None:
        return []
    with asking(f"read the log of {job.name}"):
        try:
            return _read(session.client("logs"), group, job, most)
        except ClientError as error:
            if is_absent(error):
                return []
            raise


def _read(client: Any, group: str, job: StartedJob, most: int) -> list[str]:
    streams = client.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{job.name}/")[
        "logStreams"
    ]
    if not streams:
        return []
    latest = max(streams, key=lambda stream: stream.get("lastEventTimestamp", 0))
    answer = client.get_log_events(
        logGroupName=group,
        logStreamName=latest["logStreamName"],
        limit=most,
        startFromHead=False,
    )
    return [str(event["message"]).rstrip() for event in answer["events"]]
