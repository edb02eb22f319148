"""The starter as Lambda runs it, with AWS over HTTP: what is delivered, and what is started."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.aws_server.client import AwsServer

CODE = Path(__file__).parents[2] / "infra" / "starter"
BUCKET = "models"
MONDAY, TUESDAY, WEDNESDAY = (f"incoming/topics/2026-11-{day}" for day in (16, 17, 18))
NOTICES = "compilegate/workloads/topics/notices/"


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
        return self._handle(
            "Object Created", "aws.s3", {"bucket": {"name": BUCKET}, "object": {"key": key}}
        )

    def deliver_whole(self, folder: str, content: str) -> dict[str, str]:
        """Both files of a delivery; returns what came of the second."""
        self.deliver(f"{folder}/train.csv", content)
        return self.deliver(f"{folder}/validation.csv", content)

    def end(self, number: int, *, giving_way: bool = False) -> dict[str, str]:
        """The number-th execution is stopped, by the notifier or by a person; its event comes."""
        arn = self.running(number)
        if giving_way:
            key = f"{NOTICES}{arn.rpartition('/')[2]}/overlap-0123456789ab.json"
            self.aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"{}")
        self.aws.client("sagemaker").stop_pipeline_execution(
            PipelineExecutionArn=arn, ClientRequestToken=uuid4().hex
        )
        return self.hear_of_the_end(arn)

    def hear_of_the_end(self, arn: str) -> dict[str, str]:
        return self._handle(
            "SageMaker Model Building Pipeline Execution Status Change",
            "aws.sagemaker",
            {"pipelineExecutionArn": arn, "currentPipelineExecutionStatus": "Stopped"},
        )

    def start_by_schedule(self) -> None:
        self.aws.client("sagemaker").start_pipeline_execution(
            PipelineName="topics", ClientRequestToken=uuid4().hex
        )

    def running(self, number: int) -> str:
        """The ARN of the number-th execution, counted from the first."""
        listed = self.aws.client("sagemaker").list_pipeline_executions(
            PipelineName="topics", SortOrder="Ascending", MaxResults=100
        )
        arn: str = listed["PipelineExecutionSummaries"][number - 1]["PipelineExecutionArn"]
        return arn

    def messages(self) -> list[str]:
        """The subjects of what was told."""
        queue = self.aws.client("sqs").get_queue_url(QueueName="reader")["QueueUrl"]
        found = self.aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        return [json.loads(item["Body"])["Subject"] for item in found.get("Messages", [])]

    def _handle(self, kind: str, source: str, detail: dict[str, Any]) -> dict[str, str]:
        event = {"id": str(uuid4()), "detail-type": kind, "source": source, "detail": detail}
        said: dict[str, str] = self.starter.handler(event, None)
        return said

    def data_of_executions(self) -> list[str]:
        """What each execution trains on, oldest first."""
        return [
            parameter["Value"]
            for call in self.aws.calls("StartPipelineExecution")
            for parameter in call.get("PipelineParameters", ())
        ]

    def executions(self) -> int:
        listed = self.aws.client("sagemaker").list_pipeline_executions(PipelineName="topics")
        return len(listed["PipelineExecutionSummaries"])


@pytest.fixture
def account(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.syspath_prepend(str(CODE))
    import starter  # noqa: PLC0415  on the path only in these tests

    starter.connect.cache_clear()
    aws.client("s3").create_bucket(Bucket=BUCKET)
    topic = aws.client("sns").create_topic(Name="notifications")["TopicArn"]
    aws.client("sqs").create_queue(QueueName="reader")
    aws.client("sns").subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:123456789012:reader"
    )
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
        "BUCKET": BUCKET,
        "PREFIX": "incoming/topics/",
        "QUEUE_PREFIX": "compilegate/workloads/topics/deliveries/",
        "NOTICES_PREFIX": NOTICES,
        "TOPIC_ARN": topic,
    }.items():
        monkeypatch.setenv(name, value)
    return Account(aws, starter)


@pytest.mark.slow
def test_an_execution_starts_when_the_delivery_is_whole(account: Account) -> None:
    assert "incomplete" in account.deliver(f"{MONDAY}/train.csv")
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
def test_deliveries_that_come_during_an_execution_are_trained_on_after_it(account: Account) -> None:
    account.deliver_whole(MONDAY, "monday")
    for folder in (WEDNESDAY, TUESDAY):
        assert "started" not in account.deliver_whole(folder, folder)
    assert account.executions() == 1
    account.end(1)
    account.end(2)
    assert account.executions() == 3
    trained_on = account.data_of_executions()
    assert trained_on[0] == f"s3://{BUCKET}/{MONDAY}/"
    # Within one second, S3 does not say which of them came first.
    assert set(trained_on[1:]) == {f"s3://{BUCKET}/{folder}/" for folder in (TUESDAY, WEDNESDAY)}
    assert account.end(3) == {"waiting": "none"}
    assert account.executions() == 3


@pytest.mark.slow
def test_a_delivery_waits_for_an_execution_that_somebody_else_started(account: Account) -> None:
    account.start_by_schedule()
    assert account.deliver_whole(MONDAY, "monday") == {"waiting": f"s3://{BUCKET}/{MONDAY}/"}
    assert "started" in account.end(1)
    assert account.data_of_executions() == [f"s3://{BUCKET}/{MONDAY}/"]


@pytest.mark.slow
def test_a_delivery_whose_execution_gave_way_to_an_older_one_is_trained_on_later(
    account: Account,
) -> None:
    """A schedule may start in the moment between looking and starting; the notifier then stops the
    newer execution, and says so in its outbox."""
    account.deliver_whole(MONDAY, "monday")
    account.start_by_schedule()
    assert account.end(1, giving_way=True) == {"waiting": f"s3://{BUCKET}/{MONDAY}/"}
    account.end(2)
    assert account.data_of_executions() == [f"s3://{BUCKET}/{MONDAY}/"] * 2
    assert account.executions() == 3


@pytest.mark.slow
def test_a_delivery_whose_execution_a_person_stopped_stays_stopped(account: Account) -> None:
    account.deliver_whole(MONDAY, "monday")
    assert account.end(1) == {"waiting": "none"}
    assert account.executions() == 1


@pytest.mark.slow
def test_the_same_files_in_another_folder_are_the_same_delivery_and_people_hear_of_it(
    account: Account,
) -> None:
    account.deliver_whole(MONDAY, "monday")
    account.end(1)
    said = account.deliver_whole(TUESDAY, "monday")
    assert said == {"same": f"s3://{BUCKET}/{TUESDAY}/", "as": f"s3://{BUCKET}/{MONDAY}/"}
    assert account.executions() == 1
    assert account.messages() == ["topics: the same data came twice"]


@pytest.mark.slow
def test_a_folder_that_gets_other_files_is_refused(account: Account) -> None:
    account.deliver_whole(MONDAY, "monday")
    with pytest.raises(account.starter.DeliveryError, match="was delivered before, with other"):
        account.deliver(f"{MONDAY}/train.csv", "corrected")
    assert account.executions() == 1


def test_content_is_known_by_a_checksum_where_s3_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that a key of KMS encrypts gets another ETag each time it is uploaded."""
    monkeypatch.syspath_prepend(str(CODE))
    from starter.delivery import fingerprint  # noqa: PLC0415

    first = {"ContentLength": 7, "ETag": '"1"', "ChecksumCRC64NVME": "abc="}
    assert fingerprint(first) == fingerprint({**first, "ETag": '"2"'})
    assert fingerprint(first) != fingerprint({**first, "ChecksumCRC64NVME": "abd="})
    without = {"ContentLength": 7, "ETag": '"1"'}
    assert fingerprint(without) != fingerprint({**without, "ETag": '"2"'})


@pytest.mark.slow
def test_other_objects_start_nothing(account: Account) -> None:
    for name in ("README.md", "train", "training.csv", "train.csv/part-0", "nested/train.csv"):
        account.deliver(f"{MONDAY}/{name}")
    assert "incomplete" in account.deliver(f"{MONDAY}/validation.csv")
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
