"""The table of a posture as the stacks make it, in the stand-in for AWS."""

from __future__ import annotations

from compilegate.posture.records import DynamoRecords
from tests.aws_server.client import AwsServer

TABLE = "records"


def table_in(aws: AwsServer) -> DynamoRecords:
    """An empty table."""
    keys = {"workload": "HASH", "part": "RANGE"}
    aws.client("dynamodb").create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    return DynamoRecords(aws.client("dynamodb"), TABLE)
