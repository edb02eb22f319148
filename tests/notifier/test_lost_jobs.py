"""An execution that lost candidates' jobs is started once more, with another value of Attempt."""

from __future__ import annotations

import json

import pytest

from tests.notifier.account import BUCKET, Account

pytestmark = pytest.mark.slow


def verdict(account: Account, execution: str, *, lost: bool) -> None:
    """What the gate left of an execution."""
    name = execution.rpartition("/")[2]
    account.aws.client("s3").put_object(
        Bucket=BUCKET,
        Key=f"compilegate/workloads/topics/verdicts/{name}/notice.json",
        Body=json.dumps({"send": False, "lost": lost}).encode(),
    )


def starts(account: Account) -> list[dict[str, str]]:
    """The parameters of each execution, oldest first."""
    return [
        {each["Name"]: each["Value"] for each in call.get("PipelineParameters", [])}
        for call in account.aws.calls("StartPipelineExecution")
    ]


def test_what_was_lost_is_tried_once_more(account):
    first = account.start()
    verdict(account, first, lost=True)
    (said,) = account.becomes(first, "Succeeded")
    assert account.becomes(first, "Succeeded") == []  # delivered twice
    assert starts(account)[0] == {}
    assert {json.dumps(each) for each in starts(account)[1:]} == {'{"Attempt": "2"}'}
    assert len(account.statuses()) == 2
    assert "lost jobs, started again" in said

    arn = account.aws.client("sagemaker").list_pipeline_executions(PipelineName="topics")
    newest = arn["PipelineExecutionSummaries"][0]["PipelineExecutionArn"]
    assert newest != first
    verdict(account, newest, lost=True)
    assert account.becomes(newest, "Succeeded") == []
    assert len(account.statuses()) == 2


@pytest.mark.parametrize("left", ["nothing lost", "no verdict"])
def test_any_other_execution_is_left_as_it_is(account, left):
    execution = account.start()
    if left == "nothing lost":
        verdict(account, execution, lost=False)
    assert account.becomes(execution, "Succeeded") == []
    assert len(account.statuses()) == 1
