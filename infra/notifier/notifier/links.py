"""Console pages and commands for an ARN. Pure."""

from __future__ import annotations

from urllib.parse import quote

_CONSOLES = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
_PAGES = {"training-job": "jobs", "processing-job": "processing-jobs"}
_LOG_GROUPS = {
    "training-job": "/aws/sagemaker/TrainingJobs",
    "processing-job": "/aws/sagemaker/ProcessingJobs",
}


def short_name(arn: str) -> str:
    """The last part of an ARN: an execution's id, a job's name."""
    return arn.rpartition("/")[2]


def job_page(job_arn: str) -> str | None:
    """The console's page of a training or processing job; None for anything else."""
    _, partition, _, region, _, resource = job_arn.split(":", 5)
    kind, _, name = resource.partition("/")
    if kind not in _PAGES:
        return None
    home = f"https://{_console(partition, region)}/sagemaker/home?region={region}"
    return f"{home}#/{_PAGES[kind]}/{quote(name)}"


def log_page(job_arn: str) -> str | None:
    """The console's page of a job's log streams; None for anything but a job."""
    _, partition, _, region, _, resource = job_arn.split(":", 5)
    kind, _, name = resource.partition("/")
    if kind not in _LOG_GROUPS:
        return None
    home = f"https://{_console(partition, region)}/cloudwatch/home?region={region}"
    group, streams = _fragment(_LOG_GROUPS[kind]), _fragment(f"{name}/")
    return f"{home}#logsV2:log-groups/log-group/{group}$3FlogStreamNameFilter$3D{streams}"


def watch_command(execution_arn: str) -> str:
    """The command that shows the execution, its steps and its verdict in a terminal."""
    return f"compilegate aws watch {execution_arn}"


def _console(partition: str, region: str) -> str:
    return f"{region}.{_CONSOLES.get(partition, 'console.aws.amazon.com')}"


def _fragment(text: str) -> str:
    """Text as CloudWatch's console writes it after the `#`: encoded twice, with $ for %."""
    return quote(quote(text, safe=""), safe="").replace("%", "$")
