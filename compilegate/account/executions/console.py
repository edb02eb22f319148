"""Addresses of the AWS console for what an execution runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

_DOMAINS = {"aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
_DOMAIN = "console.aws.amazon.com"
_JOB_PAGES = {
    "training-job": "jobs",
    "processing-job": "processing-jobs",
    "transform-job": "transform-jobs",
}
LOG_GROUPS = {
    "training-job": "/aws/sagemaker/TrainingJobs",
    "processing-job": "/aws/sagemaker/ProcessingJobs",
    "transform-job": "/aws/sagemaker/TransformJobs",
}
"""Where the service puts a job's output, by the kind of job."""


@dataclass(frozen=True)
class StartedJob:
    """What a step started, as its ARN names it."""

    arn: str

    @property
    def kind(self) -> str:
        """`training-job`, `processing-job` or another word of the service's."""
        return self._resource[0]

    @property
    def name(self) -> str:
        return self._resource[2]

    @property
    def region(self) -> str:
        return self.arn.split(":")[3]

    @property
    def page(self) -> str | None:
        """The job's page; None when the console has none."""
        page = _JOB_PAGES.get(self.kind)
        return None if page is None else f"{self._service('sagemaker')}#/{page}/{self.name}"

    @property
    def log(self) -> str | None:
        """The page of what the job printed; None when it has no log."""
        group = LOG_GROUPS.get(self.kind)
        if group is None:
            return None
        # The console decodes what follows the # twice.
        escaped = group.replace("/", "$252F")
        stream = f"$3FlogStreamNameFilter$3D{self.name}$252F"
        return f"{self._service('cloudwatch')}#logsV2:log-groups/log-group/{escaped}{stream}"

    @property
    def pages(self) -> dict[str, str]:
        """The pages that there are, by what they show."""
        pages = {"job": self.page, "log": self.log}
        return {name: page for name, page in pages.items() if page is not None}

    @property
    def _resource(self) -> tuple[str, str, str]:
        return self.arn.split(":", 5)[5].partition("/")

    def _service(self, name: str) -> str:
        domain = _DOMAINS.get(self.arn.split(":")[1], _DOMAIN)
        return f"https://{self.region}.{domain}/{name}/home?region={self.region}"
