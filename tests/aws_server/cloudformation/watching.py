"""Who is told of what: subscriptions of topics, and alarms."""

from __future__ import annotations

from typing import Any

from tests.aws_server.cloudformation.bridge import Made, Properties, PutBridge, ReplacedBridge


class Subscription(ReplacedBridge):
    type = "AWS::SNS::Subscription"
    service = "sns"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        arn = client.subscribe(**properties, ReturnSubscriptionArn=True)["SubscriptionArn"]
        return Made(arn, {"Arn": arn})

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        client.unsubscribe(SubscriptionArn=ref)


class Alarm(PutBridge):
    type = "AWS::CloudWatch::Alarm"
    service = "cloudwatch"
    name_property = "AlarmName"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        client.put_metric_alarm(**{**properties, "AlarmName": name})
        (alarm,) = client.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        return Made(name, {"Arn": alarm["AlarmArn"]})

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        client.delete_alarms(AlarmNames=[ref])
