"""How an execution and its jobs are named, and where the console shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.account.errors import AwsError
from compilegate.account.executions import is_execution_arn, job_pages, known, request_token
from compilegate.execution.status import ExecutionStatus, StepStatus

ARN = "arn:aws:sagemaker:us-east-1:123456789012:pipeline/topics/execution/abcdef123456"


@pytest.mark.parametrize(
    ("arn", "page"),
    [
        (
            "arn:aws:sagemaker:eu-west-1:123456789012:training-job/x",
            "https://eu-west-1.console.aws.amazon.com/sagemaker/home?region=eu-west-1#/jobs/x",
        ),
        (
            "arn:aws-cn:sagemaker:cn-north-1:123456789012:processing-job/x",
            "https://cn-north-1.console.amazonaws.cn/sagemaker/home?region=cn-north-1"
            "#/processing-jobs/x",
        ),
        ("arn:aws:sagemaker:eu-west-1:123456789012:pipeline/x", None),
    ],
)
def test_a_job_has_its_page_in_the_console_of_its_partition(arn: str, page: str | None) -> None:
    assert job_pages(arn).get("job") == page


def test_a_jobs_log_is_found_by_its_name() -> None:
    log = job_pages("arn:aws:sagemaker:us-east-1:123456789012:training-job/x-1")["log"]
    assert log.endswith(
        "#logsV2:log-groups/log-group/$252Faws$252Fsagemaker$252FTrainingJobs"
        "$3FlogStreamNameFilter$3Dx-1$252F"
    )


def test_a_status_that_came_up_later_is_named_with_those_that_are_known() -> None:
    assert known(StepStatus, "Starting") is StepStatus.STARTING
    with pytest.raises(AwsError, match="the status 'Paused', allowed: Executing, Stopping"):
        known(ExecutionStatus, "Paused")


@pytest.mark.slow
@given(st.text(max_size=20), st.text(max_size=20))
def test_a_token_is_one_that_the_service_takes_and_tells_starts_apart(one: str, two: str) -> None:
    assert (request_token("p", one) == request_token("p", two)) == (one == two)
    assert 32 <= len(request_token("p", one)) <= 128
    assert request_token("p", None) != request_token("p", None)


def test_an_execution_is_told_from_a_workload_by_its_arn() -> None:
    assert is_execution_arn(ARN)
    assert not is_execution_arn("topics")
    assert not is_execution_arn(ARN.rpartition("/execution")[0])
