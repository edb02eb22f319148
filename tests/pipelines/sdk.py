"""A definition in the classes of the SageMaker Python SDK: a second opinion on what we write.

The SDK knows each property of a step. Its import costs seconds, so tests import this file late.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import Enum
from typing import Any

# Importing the SDK without a region fails.
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

import boto3
from sagemaker.core.workflow import conditions, parameters
from sagemaker.core.workflow.execution_variables import ExecutionVariable
from sagemaker.core.workflow.functions import Join, JsonGet
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.core.workflow.properties import (
    Properties,
    PropertiesList,
    PropertiesMap,
    PropertyFile,
)
from sagemaker.mlops.workflow import retry
from sagemaker.mlops.workflow.condition_step import ConditionStep
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.step_dependency import StepDependency, TriggerCondition
from sagemaker.mlops.workflow.steps import CacheConfig, ConfigurableRetryStep, StepTypeEnum

from compilegate.document import model
from compilegate.document.expressions import is_expression, step_reference
from compilegate.document.step_types import CONDITION, FAIL, LAMBDA, STEP_TYPES


def sdk_document(definition: model.Definition) -> dict[str, Any]:
    """The definition that the SDK writes, without members that are null. Calls no AWS."""
    session = PipelineSession(
        boto_session=boto3.Session(region_name="us-east-1"),
        default_bucket="bucket",
        sagemaker_config={"SchemaVersion": "1.0"},
    )
    translation = _Translation(definition)
    pipeline = Pipeline(
        name="p",
        parameters=list(translation.parameters.values()),
        steps=translation.steps(None),
        sagemaker_session=session,
        pipeline_experiment_config=None,
    )
    document: dict[str, Any] = json.loads(pipeline.definition())
    return {key: value for key, value in document.items() if value is not None}


class _Translation:
    def __init__(self, definition: model.Definition) -> None:
        self._steps = definition.steps
        self._types = {step.name: step.type for step in definition.steps}
        self.parameters = {
            each.name: getattr(parameters, f"Parameter{each.type}")(
                each.name,
                default_value=each.default,
                **({} if each.allowed is None else {"enum_values": list(each.allowed)}),
            )
            for each in definition.parameters
        }

    def steps(self, branch: model.Branch | None) -> list[Any]:
        """The steps of one level: those on a branch, or those on none."""
        return [self._step(step) for step in self._steps if step.branch == branch]

    def _step(self, step: model.Step) -> Any:
        arguments = self._value(dict(step.arguments))
        around = {
            "display_name": step.display_name,
            "description": step.description,
            "depends_on": [_dependency(each) for each in step.depends_on] or None,
        }
        if step.type == CONDITION:
            return ConditionStep(
                step.name,
                conditions=[self._condition(each) for each in step.arguments["Conditions"]],
                if_steps=self.steps(model.Branch(step.name, True)),
                else_steps=self.steps(model.Branch(step.name, False)),
                **around,
            )
        if step.type == FAIL:
            return FailStep(step.name, error_message=arguments.get("ErrorMessage"), **around)
        return _RequestStep(step, arguments, **around)

    def _condition(self, condition: Mapping[str, Any]) -> Any:
        kind = getattr(conditions, f"Condition{condition['Type']}")
        match condition["Type"]:
            case "Not":
                return kind(self._condition(condition["Condition"]))
            case "Or":
                return kind([self._condition(each) for each in condition["Conditions"]])
            case "In":
                values = self._value(condition["Values"])
                return kind(value=self._value(condition["QueryValue"]), in_values=values)
        left, right = condition["LeftValue"], condition["RightValue"]
        return kind(left=self._value(left), right=self._value(right))

    def _value(self, value: Any) -> Any:
        """The value with the SDK's objects in place of expressions."""
        if is_expression(value):
            ((function, argument),) = value.items()
            return self._expression(function, argument)
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        return [self._value(item) for item in value] if isinstance(value, list) else value

    def _expression(self, function: str, argument: Any) -> Any:
        if function == "Std:Join":
            return Join(on=argument["On"], values=self._value(argument["Values"]))
        if function == "Std:JsonGet":
            reference = step_reference(argument["PropertyFile"]["Get"])
            _, file = reference.path
            return JsonGet(step_name=reference.step, property_file=file, json_path=argument["Path"])
        root, _, rest = argument.partition(".")
        if root == "Parameters":
            return self.parameters[rest]
        return ExecutionVariable(rest) if root == "Execution" else self._property(argument)

    def _property(self, name: str) -> Properties:
        """The SDK's own object for a property, which it has where the service does."""
        reference = step_reference(name)
        step_type = self._types[reference.step]
        shape = STEP_TYPES[step_type].description
        if step_type == LAMBDA:
            # As the SDK's own LambdaOutput writes it.
            root, output = reference.path
            return Properties(step_name=reference.step, path=f"{root}['{output}']")
        if shape is None:
            return Properties(step_name=reference.step, path=".".join(map(str, reference.path)))
        found = Properties(step_name=reference.step, shape_name=shape)
        for segment in reference.path:
            inside = isinstance(found, PropertiesList | PropertiesMap)
            found = found[segment] if inside else getattr(found, str(segment))
        return found


class _RequestStep(ConfigurableRetryStep):
    """A step that holds its plain API request."""

    arguments: Any = None
    properties: Any = None
    step_args: None = None
    property_files: tuple[PropertyFile, ...] = ()

    def __init__(self, step: model.Step, arguments: dict[str, Any], **around: Any) -> None:
        policies = [_retry_policy(policy) for policy in step.retry_policies]
        super().__init__(step.name, StepTypeEnum(step.type), retry_policies=policies, **around)
        self.arguments = arguments
        shape = STEP_TYPES[step.type].description
        self.properties = Properties(step_name=step.name, step=self, shape_name=shape)
        self.property_files = tuple(
            PropertyFile(name=file.name, output_name=file.output_name, path=file.file_path)
            for file in step.property_files
        )
        self._step = step

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = super().to_request()
        if self._step.cache is not None:
            limit = self._step.cache.expire_after
            expiry = None if limit is None else model.format_duration(limit)
            request.update(CacheConfig(enable_caching=True, expire_after=expiry).config)
        if self.property_files:
            request["PropertyFiles"] = [file.expr for file in self.property_files]
        if self._step.function is not None:
            request["FunctionArn"] = self._step.function
            request["OutputParameters"] = [
                {"OutputName": output.name, "OutputType": output.type}
                for output in self._step.output_parameters
            ]
        return request


def _dependency(dependency: model.Dependency) -> str | StepDependency:
    if dependency.trigger == model.Dependency.trigger:
        return dependency.step
    return StepDependency(dependency.step, TriggerCondition(dependency.trigger))


def _retry_policy(policy: model.RetryPolicy) -> Any:
    def order(kind: Enum) -> int:
        return policy.exception_types.index(kind.value)

    kinds = {
        retry.StepExceptionTypeEnum: retry.StepRetryPolicy,
        retry.SageMakerJobExceptionTypeEnum: retry.SageMakerJobStepRetryPolicy,
    }
    for enumeration, policy_class in kinds.items():
        # Called with a value, the SDK's enumerations answer with their first member.
        members = [each for each in enumeration if each.value in policy.exception_types]
        if len(members) == len(policy.exception_types):
            return policy_class(
                sorted(members, key=order),
                backoff_rate=policy.backoff_rate,
                interval_seconds=policy.interval_seconds,
                max_attempts=policy.max_attempts,
                expire_after_mins=policy.expire_after_minutes,
            )
    raise ValueError(f"the SDK has no retry policy for {policy.exception_types} together")
