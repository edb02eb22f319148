"""The frames of scripted executions: what SageMaker would answer, look after look."""

from __future__ import annotations

from typing import Any

from compilegate.gate.findings import Outcome
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Decision, Verdict
from tests.account.deployed import BUCKET, GROUP, Deployed
from tests.aws_server.client import ACCOUNT, REGION

ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
Step = dict[str, Any]
REPRO = "repros/compiled--1/repro.py"
"""Beside the gate's reports, which have a link to it."""


def frame(status: str, *steps: Step, at: float = 0) -> dict[str, Any]:
    """One look at an execution, `at` seconds after its start."""
    return {"status": status, "steps": list(steps), "at": at}


def job(name: str, kind: str, start: float, end: float | None = None) -> Step:
    """A step with a job of a `Training` or `Processing` kind, running while it has no end."""
    resource = f"{kind.lower()}-job/pipelines-{name.lower()}"
    return _step(name, start, end, {f"{kind}Job": {"Arn": f"{ARN}:{resource}"}})


def register(name: str, start: float, end: float, version: int) -> Step:
    arn = f"{ARN}:model-package/{GROUP}/{version}"
    return _step(name, start, end, {"RegisterModel": {"Arn": arn}})


def condition(name: str, start: float, end: float, outcome: bool) -> Step:
    return _step(name, start, end, {"Condition": {"Outcome": str(outcome)}})


def fail(name: str, start: float, message: str) -> Step:
    return _step(name, start, start, {"Fail": {"ErrorMessage": message}}, StepStatus="Failed")


def cached(step: Step, source: str) -> Step:
    """The same step, with its result taken from another execution."""
    return {**step, "CacheHitResult": {"SourcePipelineExecutionArn": source}}


def _step(name: str, start: float, end: float | None, metadata: Step, **more: Any) -> Step:
    ended = {} if end is None else {"EndTime": end}
    status = "Executing" if end is None else "Succeeded"
    return {
        "StepName": name,
        "StepStatus": status,
        "StartTime": start,
        **ended,
        "Metadata": metadata,
        "AttemptCount": 1,
        **more,
    }


def gate_has_run(deployed: Deployed, verdict: Verdict) -> None:
    """Leave behind what the gate's job does: its files in the bucket, and itself in the list."""
    prefix = "compilegate/workloads/topics/verdicts/execution001"
    deployed.put_object(f"{prefix}/verdict.json", verdict.to_json())
    deployed.put_object(f"{prefix}/report.html", "<p>the gate's page</p>")
    deployed.put_object(f"{prefix}/report.md", "the gate's text")
    deployed.put_object(f"{prefix}/{REPRO}", "the gradient is zero")
    _processing_job(deployed, "pipelines-gate", "verdict", prefix)


def prepare_has_run(deployed: Deployed) -> None:
    """Its job is in the list; its output lies nowhere, since nobody here reads it."""
    _processing_job(deployed, "pipelines-prepare", "prepared", "compilegate/prepared")


def model_registered(deployed: Deployed) -> None:
    """A first version in the group."""
    deployed.server.client("sagemaker").create_model_package(
        ModelPackageGroupName=GROUP, ModelApprovalStatus="PendingManualApproval"
    )


def _processing_job(deployed: Deployed, name: str, output: str, prefix: str) -> None:
    deployed.server.client("sagemaker").create_processing_job(
        ProcessingJobName=name,
        ProcessingResources={
            "ClusterConfig": {
                "InstanceCount": 1,
                "InstanceType": "ml.m5.xlarge",
                "VolumeSizeInGB": 10,
            }
        },
        AppSpecification={"ImageUri": "image"},
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/processing",
        ProcessingOutputConfig={
            "Outputs": [
                {
                    "OutputName": output,
                    "S3Output": {
                        "S3Uri": f"s3://{BUCKET}/{prefix}",
                        "LocalPath": f"/opt/ml/processing/output/{output}",
                        "S3UploadMode": "EndOfJob",
                    },
                }
            ]
        },
    )


def verdict(decided: str, outcome: Outcome) -> Verdict:
    """A verdict of one candidate; the sentence is the gate's word on it."""
    return Verdict(
        workload="topics",
        seeds=(7, 8),
        confidence=0.95,
        decision=Decision(decided, 7, f"The model of {decided} is registered."),
        baseline=BaselineVerdict("baseline", decided != "none", (), ()),
        candidates=(CandidateVerdict("compiled", outcome, (), (), None, (), 0.95),),
    )
