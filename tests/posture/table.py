"""The table of a posture as the stacks make it, in the stand-in for AWS."""

from __future__ import annotations

from typing import Any

from compilegate.posture.records import DynamoRecords
from tests.aws_server.client import AwsServer

TABLE = "records"


def table_in(aws: AwsServer) -> DynamoRecords:
    """An empty table, with the stream of what is put into it."""
    aws.client("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[
            {"AttributeName": "workload", "KeyType": "HASH"},
            {"AttributeName": "part", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "workload", "AttributeType": "S"},
            {"AttributeName": "part", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    return DynamoRecords(aws.client("dynamodb"), TABLE)


def streamed(aws: AwsServer, table: str = TABLE) -> list[dict[str, Any]]:
    """What the stream hands to a function: every record of its one shard."""
    arn = aws.client("dynamodb").describe_table(TableName=table)["Table"]["LatestStreamArn"]
    client = aws.client("dynamodbstreams")
    (shard,) = client.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = client.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    found: list[dict[str, Any]] = client.get_records(ShardIterator=iterator)["Records"]
    return found
