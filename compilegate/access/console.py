"""Addresses of the console's pages of jobs and their logs. Pure."""

from __future__ import annotations

from urllib.parse import quote

PAGES = {
    "training-job": "jobs",
    "processing-job": "processing-jobs",
    "transform-job": "transform-jobs",
}
"""The console's word, by the kind of job in an ARN."""
DOMAINS = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}


def console(partition: str, region: str) -> str:
    """The beginning of the console's addresses."""
    return f"https://{region}.{DOMAINS.get(partition, 'console.aws.amazon.com')}"


def log_group(type: str) -> str:
    """The log group of the service's jobs, by the type of their steps: `Training`."""
    return f"/aws/sagemaker/{type}Jobs"


def job_pages(arn: str) -> dict[str, str]:
    """The pages of a job and of its log, as `job` and `log`; none for another resource."""
    _, partition, _, region, _, resource = arn.split(":", 5)
    kind, _, name = resource.partition("/")
    if kind not in PAGES:
        return {}
    at, home = console(partition, region), f"home?region={region}#"
    group = _fragment(log_group(kind.removesuffix("-job").capitalize()))
    streams = f"{group}$3FlogStreamNameFilter$3D{_fragment(f'{name}/')}"
    return {
        "job": f"{at}/sagemaker/{home}/{PAGES[kind]}/{name}",
        "log": f"{at}/cloudwatch/{home}logsV2:log-groups/log-group/{streams}",
    }


def _fragment(text: str) -> str:
    """Text behind the `#`, which CloudWatch's console decodes twice, with `$` for `%`."""
    return quote(quote(text, safe=""), safe="").replace("%", "$")
