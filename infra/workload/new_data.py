"""Deliveries of raw data that start a pipeline."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from compilegate.access import Arns
from compilegate.access.layout import deliveries_prefix, notices_prefix
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.functions import DeadLetters, EventFunction, log_name
from compilegate.infra.project import Project
from compilegate.infra.workload.permissions import starter_statements
from compilegate.infra.workload.pipeline import TrainingPipeline
from compilegate.workload.file import NewData


def starter(
    scope: Construct,
    id: str,
    *,
    project: Project,
    workload: str,
    new_data: NewData,
    training: TrainingPipeline,
    foundation: FoundationStack,
    dead_letters: DeadLetters,
) -> EventFunction:
    """The function that starts the pipeline with a delivery, once the delivery is complete and no
    other execution runs.

    A rule alone could start the pipeline, but only with parameters that are fixed when the rule is
    made: the execution would take every step from the cache and train on nothing new.
    """
    name = project.names.function(workload, "starter")
    function = EventFunction(
        scope,
        id,
        name=name,
        description=f"Retrains {workload} when new data arrives",
        code=Path(__file__).parents[1] / "starter",
        handler="starter.handler",
        variables={
            "PIPELINE_NAME": training.name,
            "BUCKET": foundation.bucket.bucket_name,
            "PREFIX": new_data.prefix,
            "QUEUE_PREFIX": deliveries_prefix(workload),
            "NOTICES_PREFIX": notices_prefix(workload),
            "TOPIC_ARN": foundation.topic.topic_arn,
        },
        statements=starter_statements(
            arns=Arns.of(cdk.Stack.of(scope)),
            pipeline_arn=training.arn,
            bucket_arn=foundation.bucket_arn,
            workload=workload,
            prefix=new_data.prefix,
            topic_arn=foundation.topic.topic_arn,
            key_arn=foundation.key.key_arn,
            dead_letter_arn=dead_letters.queue.queue_arn,
            log_group=log_name(name),
        ),
        key=foundation.key,
        log_days=project.settings.storage.log_days,
        dead_letters=dead_letters,
    )
    function.subscribe(
        "Objects",
        {
            "source": ["aws.s3"],
            "detail-type": ["Object Created"],
            "detail": {
                "bucket": {"name": [foundation.bucket.bucket_name]},
                "object": {"key": [{"prefix": new_data.prefix}]},
            },
        },
        enabled=new_data.enabled,
    )
    function.subscribe(
        "Ended",
        {
            "source": ["aws.sagemaker"],
            "detail-type": ["SageMaker Model Building Pipeline Execution Status Change"],
            "detail": {"pipelineArn": [training.arn], "currentPipelineExecutionStatus": ENDED},
        },
        enabled=new_data.enabled,
    )
    return function


ENDED = ["Failed", "Stopped", "Succeeded"]
"""The next delivery starts when the execution before it is one of these."""
