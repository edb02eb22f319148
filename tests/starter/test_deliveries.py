"""The starter as Lambda runs it, with AWS over HTTP: what is delivered, and what is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.aws_server.client import AwsServer

CODE = Path(__file__).parents[2] / "infra" / "starter"
BUCKET = "models"
MONDAY = "incoming/topics/2026-11-16"


@dataclass(frozen=True)
class Account:
    """An account with one pipeline, and a bucket that data is delivered to."""

    aws: AwsServer
    starter: Any

    def deliver(self, key: str, content: str = "text,label\n") -> dict[str, str]:
        """Write an object and deliver its event; returns what came of it."""
        self.aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content.encode())
        return self.hear_of(key)

    def hear_of(self, key: str) -> dict[str, str]:
        event = {
            "id": str(uuid4()),
            "detail-type": "Object Created",
            "source": "aws.s3",
            "detail": {"bucket": {"name": BUCKET}, "object": {"key": key}},
        }
        said: dict[str, str] = self.starter.handler(event, None)
        return said

    def data_of_executions(self) -> list[str]:
        """What each execution trains on, oldest first."""
        return [
            parameter["Value"]
            for call in self.aws.calls("StartPipelineExecution")
            for parameter in call["PipelineParameters"]
        ]

    def executions(self) -> int:
        listed = self.aws.client("sagemaker").list_pipeline_executions(PipelineName="topics")
        return len(listed["PipelineExecutionSummaries"])


@pytest.fixture
def account(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.syspath_prepend(str(CODE))
    import starter  # noqa: PLC0415  on the path only in these tests

    starter._client.cache_clear()
    aws.client("s3").create_bucket(Bucket=BUCKET)
    aws.client("sagemaker").create_pipeline(
        PipelineName="topics",
        PipelineDefinition="{}",
        RoleArn="arn:aws:iam::123456789012:role/pipeline",
        ClientRequestToken="p" * 32,
    )
    aws.script("topics", [{"status": "Executing"}])
    for name, value in {
        **aws.environment,
        "AWS_DEFAULT_REGION": aws.environment["AWS_REGION"],  # Lambda sets both
        "PIPELINE_NAME": "topics",
        "PREFIX": "incoming/topics/",
    }.items():
        monkeypatch.setenv(name, value)
    return Account(aws, starter)


@pytest.mark.slow
def test_an_execution_starts_when_the_delivery_is_whole(account: Account) -> None:
    assert "waiting" in account.deliver(f"{MONDAY}/train.csv")
    assert account.executions() == 0
    assert "started" in account.deliver(f"{MONDAY}/validation.csv")
    # With its slash: SageMaker takes a URI for the beginning of keys, of other folders' too.
    assert account.data_of_executions() == [f"s3://{BUCKET}/{MONDAY}/"]


@pytest.mark.slow
def test_a_delivery_starts_one_execution_however_often_it_is_told(account: Account) -> None:
    account.deliver(f"{MONDAY}/train.csv")
    account.deliver(f"{MONDAY}/validation.csv")
    account.hear_of(f"{MONDAY}/validation.csv")
    account.hear_of(f"{MONDAY}/train.csv")
    assert account.executions() == 1


@pytest.mark.slow
def test_the_next_delivery_starts_the_next_execution(account: Account) -> None:
    tuesday = "incoming/topics/2026-11-17"
    for folder in (MONDAY, tuesday):
        for part in ("train", "validation"):
            account.deliver(f"{folder}/{part}.jsonl")
    assert account.executions() == 2
    assert account.data_of_executions() == [
        f"s3://{BUCKET}/{MONDAY}/",
        f"s3://{BUCKET}/{tuesday}/",
    ]


@pytest.mark.slow
def test_other_objects_start_nothing(account: Account) -> None:
    for name in ("README.md", "train", "training.csv", "train.csv/part-0", "nested/train.csv"):
        account.deliver(f"{MONDAY}/{name}")
    assert "waiting" in account.deliver(f"{MONDAY}/validation.csv")
    assert account.executions() == 0


@pytest.mark.slow
def test_a_delivery_without_a_folder_of_its_own_is_refused(account: Account) -> None:
    """Its next one would be overwritten under an execution, and look the same to the step cache."""
    with pytest.raises(account.starter.DeliveryError, match="is not in a folder of its own"):
        account.deliver("incoming/topics/train.csv")


@pytest.mark.slow
def test_a_delivery_with_a_part_twice_is_refused(account: Account) -> None:
    account.deliver(f"{MONDAY}/train.csv")
    with pytest.raises(account.starter.DeliveryError, match=r"holds 2 files train\.\*"):
        account.deliver(f"{MONDAY}/train.parquet")
    assert account.executions() == 0
