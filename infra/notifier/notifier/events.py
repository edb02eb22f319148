"""Reads an EventBridge event as one of five things that can happen, or as none. Pure.

SageMaker may send several events for one change of state, and EventBridge may deliver each of them
several times. So an event only says where to look; the notifier acts on what it finds there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXECUTION_CHANGED = "SageMaker Model Building Pipeline Execution Status Change"
STEP_CHANGED = "SageMaker Model Building Pipeline Execution Step Status Change"
GATE_STEP = "Gate"
"""Where an arm trains alone, its name follows: `Gate-compiled-alone`."""
REGISTER_STEPS = "Register-"
"""What the names of the steps that register a model begin with; an arm's name follows."""


class EventError(Exception):
    """An event lacks a key that its kind always has. The message names the key."""


@dataclass(frozen=True)
class ExecutionStarted:
    """An execution began, or was retried."""

    execution_arn: str


@dataclass(frozen=True)
class ExecutionFailed:
    """An execution ended without success."""

    execution_arn: str


@dataclass(frozen=True)
class ExecutionSucceeded:
    """An execution registered a model."""

    execution_arn: str


@dataclass(frozen=True)
class GateFinished:
    """The gate came to a verdict."""

    execution_arn: str
    processing_job_arn: str


@dataclass(frozen=True)
class ModelRegistered:
    """A step registered a model."""

    execution_arn: str
    step: str


Happening = ExecutionStarted | ExecutionFailed | ExecutionSucceeded | GateFinished | ModelRegistered


def read_event(event: Mapping[str, Any], pipeline_arn: str) -> Happening | None:
    """What happened to this pipeline; None for any other event.

    Raises EventError when the event lacks a key that its kind has.
    """
    detail = event.get("detail") or {}
    # The service writes the names in ARNs sometimes as given, sometimes in lower case.
    if str(detail.get("pipelineArn", "")).lower() != pipeline_arn.lower():
        return None
    if event.get("detail-type") == EXECUTION_CHANGED:
        return _of_execution(detail)
    if event.get("detail-type") == STEP_CHANGED:
        return _of_step(detail)
    return None


def _of_execution(detail: Mapping[str, Any]) -> Happening | None:
    execution = _text(detail, "pipelineExecutionArn")
    match _text(detail, "currentPipelineExecutionStatus"):
        case "Executing":
            return ExecutionStarted(execution)
        case "Failed":
            return ExecutionFailed(execution)
        case "Succeeded":
            return ExecutionSucceeded(execution)
        case _:
            return None


def _of_step(detail: Mapping[str, Any]) -> Happening | None:
    name = str(detail.get("stepName", ""))
    if detail.get("currentStepStatus") != "Succeeded":
        return None
    if name.startswith(REGISTER_STEPS):
        return ModelRegistered(_text(detail, "pipelineExecutionArn"), name)
    if name != GATE_STEP and not name.startswith(f"{GATE_STEP}-"):
        return None
    job = (detail.get("metadata") or {}).get("processingJob") or {}
    return GateFinished(_text(detail, "pipelineExecutionArn"), _text(job, "arn"))


def _text(source: Mapping[str, Any], key: str) -> str:
    value = source.get(key)
    if not isinstance(value, str) or not value:
        raise EventError(f"the event has no {key}: found {value!r}")
    return value
