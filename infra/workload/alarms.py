"""Alarms for what people would not hear of otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Watched:
    """One metric that should stay at zero."""

    name: str
    """The end of the alarm's name, after the pipeline's."""
    description: str
    namespace: str
    metric: str
    dimension: str
    value: str
    statistic: str = "Sum"


class Alarms(Construct):
    """An alarm each for failed executions, undelivered events and failed functions."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        pipeline_name: str,
        queue_name: str,
        functions: Mapping[str, str],
        topic_arn: str,
    ) -> None:
        super().__init__(scope, id)
        for watched in (
            Watched(
                name="failed",
                description=f"An execution of {pipeline_name} failed",
                namespace="AWS/Sagemaker/ModelBuildingPipeline",
                metric="ExecutionFailed",
                dimension="PipelineName",
                value=pipeline_name,
            ),
            Watched(
                name="undelivered",
                description=f"A start of {pipeline_name}, or an event for its functions, could not "
                "be delivered; it is in the dead-letter queue",
                namespace="AWS/SQS",
                metric="ApproximateNumberOfMessagesVisible",
                dimension="QueueName",
                value=queue_name,
                statistic="Maximum",
            ),
            *(
                Watched(
                    name=name,
                    description=f"The {name} of {pipeline_name} failed; its log says why",
                    namespace="AWS/Lambda",
                    metric="Errors",
                    dimension="FunctionName",
                    value=function,
                )
                for name, function in functions.items()
            ),
        ):
            cloudwatch.CfnAlarm(
                self,
                watched.name.capitalize(),
                alarm_name=f"{pipeline_name}-{watched.name}",
                alarm_description=watched.description,
                namespace=watched.namespace,
                metric_name=watched.metric,
                dimensions=[{"name": watched.dimension, "value": watched.value}],
                statistic=watched.statistic,
                period=SECONDS,
                evaluation_periods=1,
                threshold=1,
                comparison_operator="GreaterThanOrEqualToThreshold",
                treat_missing_data="notBreaching",
                alarm_actions=[topic_arn],
            )
