"""A workload's posture in the account: its record, the function that keeps it, who hears of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from compilegate.access import Arns
from compilegate.infra.foundation import FoundationStack
from compilegate.infra.functions import DeadLetters, EventFunction, log_name
from compilegate.infra.parts import removal_policy
from compilegate.infra.posture.permissions import change_statements, posture_statements
from compilegate.infra.project import Project
from compilegate.posture import contract

PROGRAM = (
    "__init__.py",
    "errors.py",
    "job/__init__.py",
    "job/errors.py",
    "job/files.py",
    "job/names.py",
    "posture",
)
"""What of the package the function runs: nothing else is imported there but boto3."""
ENDED = {"currentPipelineExecutionStatus": ["Failed", "Stopped"]}
MOVED = {"moved": {"S": ["yes"]}}


class PostureRecord(Construct):
    """A table with every decision, and the stream of them."""

    def __init__(
        self, scope: Construct, id: str, *, project: Project, foundation: FoundationStack
    ) -> None:
        super().__init__(scope, id)
        # Without a name of its own: one that was kept would block the next deployment, which then
        # begins in shadow, as with any record that was lost.
        self.table = dynamodb.CfnTable(
            self,
            "Table",
            key_schema=[
                {"attributeName": "workload", "keyType": "HASH"},
                {"attributeName": "part", "keyType": "RANGE"},
            ],
            attribute_definitions=[
                {"attributeName": "workload", "attributeType": "S"},
                {"attributeName": "part", "attributeType": "S"},
            ],
            billing_mode="PAY_PER_REQUEST",
            point_in_time_recovery_specification={"pointInTimeRecoveryEnabled": True},
            sse_specification={
                "sseEnabled": True,
                "sseType": "KMS",
                "kmsMasterKeyId": foundation.key.key_arn,
            },
            stream_specification={"streamViewType": "NEW_IMAGE"},
        )
        self.table.apply_removal_policy(removal_policy(project.settings.storage))
        self.change_statements = change_statements(stream_arn=self.table.attr_stream_arn)
        """What who is told of changes may do."""


class Posture(Construct):
    """The record, and the function that two steps of the definition call.

    The function also hears of executions that ended before their gate could say anything: a
    candidate that crashed is refused, and the baseline is trained in another execution.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        project: Project,
        workload: str,
        pipeline_arn: str,
        foundation: FoundationStack,
        dead_letters: DeadLetters,
        record: PostureRecord,
    ) -> None:
        super().__init__(scope, id)
        name = project.names.function(workload, contract.FUNCTION_KIND)
        self.record = record
        self.function = EventFunction(
            self,
            "Keeper",
            name=name,
            description=f"Decides which arms of {workload} train, and keeps every decision",
            code=_program(self),
            handler="compilegate.posture.function.lambda_handler",
            variables={
                contract.TABLE_VARIABLE: record.table.ref,
                contract.WORKLOAD_VARIABLE: workload,
            },
            statements=posture_statements(
                arns=Arns.of(cdk.Stack.of(self)),
                pipeline_arn=pipeline_arn,
                table_arn=record.table.attr_arn,
                key_arn=foundation.key.key_arn,
                dead_letter_arn=dead_letters.queue.queue_arn,
                log_group=log_name(name),
            ),
            key=foundation.key,
            log_days=project.settings.storage.log_days,
            dead_letters=dead_letters,
        )
        self.function.subscribe(
            "Ended",
            {
                "source": ["aws.sagemaker"],
                "detail-type": ["SageMaker Model Building Pipeline Execution Status Change"],
                "detail": {"pipelineArn": [pipeline_arn], **ENDED},
            },
        )


def tell_changes(
    scope: Construct, *, record: PostureRecord, notifier: EventFunction, dead_letters: DeadLetters
) -> None:
    """The notifier hears of every decision that moves the posture, whoever made it."""
    lambda_.CfnEventSourceMapping(
        scope,
        "Changes",
        function_name=notifier.function.ref,
        event_source_arn=record.table.attr_stream_arn,
        starting_position="TRIM_HORIZON",
        maximum_retry_attempts=10,
        bisect_batch_on_function_error=True,
        destination_config={"onFailure": {"destination": dead_letters.queue.queue_arn}},
        filter_criteria={
            "filters": [
                {"pattern": json.dumps({"eventName": ["INSERT"], "dynamodb": {"NewImage": MOVED}})}
            ]
        },
    )


def _program(scope: Construct) -> Path:
    """The function's part of the package, in a folder of the assembly."""
    app = cast(cdk.Stage, cdk.Stage.of(scope))
    folder = Path(app.outdir) / "posture-function"
    package = Path(contract.__file__).parents[1]
    shutil.rmtree(folder, ignore_errors=True)
    for part in PROGRAM:
        source, target = package / part, folder / "compilegate" / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    return folder
