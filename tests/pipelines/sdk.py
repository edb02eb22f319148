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
from sagemaker.core.workflow.conditions import (
    Condition,
    ConditionEquals,
    ConditionGreaterThan,
    ConditionGreaterThanOrEqualTo,
    ConditionIn,
    ConditionLessThan,
    ConditionLessThanOrEqualTo,
    ConditionNot,
    ConditionOr,
)
from sagemaker.core.workflow.execution_variables import ExecutionVariable
from sagemaker.core.workflow.functions import Join, JsonGet
from sagemaker.core.workflow.parameters import (
    Parameter,
    ParameterBoolean,
    ParameterFloat,
    ParameterInteger,
    ParameterString,
)
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.core.workflow.properties import (
    Properties,
    PropertiesList,
    PropertiesMap,
    PropertyFile,
)
from sagemaker.mlops.workflow.condition_step import ConditionStep
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.retry import (
    RetryPolicy,
    SageMakerJobExceptionTypeEnum,
    SageMakerJobStepRetryPolicy,
    StepExceptionTypeEnum,
    StepRetryPolicy,
)
from sagemaker.mlops.workflow.step_dependency import StepDependency, TriggerCondition
from sagemaker.mlops.workflow.steps import CacheConfig, ConfigurableRetryStep, StepTypeEnum

from compilegate.document import model
from compilegate.document.expressions import is_expression, step_reference
from compilegate.document.model import format_duration
from compilegate.document.step_types import CONDITION, FAIL, LAMBDA, STEP_TYPES

_PARAMETERS: Mapping[str, type[Parameter]] = {
    "String": ParameterString,
    "Integer": ParameterInteger,
    "Float": ParameterFloat,
    "Boolean": ParameterBoolean,
}
_COMPARISONS: Mapping[str, type[Condition]] = {
    "Equals": ConditionEquals,
    "GreaterThan": ConditionGreaterThan,
    "GreaterThanOrEqualTo": ConditionGreaterThanOrEqualTo,
    "LessThan": ConditionLessThan,
    "LessThanOrEqualTo": ConditionLessThanOrEqualTo,
}


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
        self.parameters = {each.name: _parameter(each) for each in definition.parameters}

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

    def _condition(self, condition: Mapping[str, Any]) -> Condition:
        match condition["Type"]:
            case "Not":
                return ConditionNot(self._condition(condition["Condition"]))
            case "Or":
                return ConditionOr([self._condition(each) for each in condition["Conditions"]])
            case "In":
                values = self._value(condition["Values"])
                return ConditionIn(value=self._value(condition["QueryValue"]), in_values=values)
            case kind:
                left, right = condition["LeftValue"], condition["RightValue"]
                return _COMPARISONS[kind](left=self._value(left), right=self._value(right))

    def _value(self, value: Any) -> Any:
        """The value with the SDK's objects in place of expressions."""
        if is_expression(value):
            ((function, argument),) = value.items()
            return self._expression(function, argument)
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(item) for item in value]
        return value

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
        if root == "Execution":
            return ExecutionVariable(rest)
        return self._property(argument)

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

    def __init__(self, step: model.Step, arguments: dict[str, Any], **around: Any) -> None:
        super().__init__(
            step.name,
            StepTypeEnum(step.type),
            retry_policies=[_retry_policy(policy) for policy in step.retry_policies],
            **around,
        )
        self._arguments = arguments
        self._properties = Properties(
            step_name=step.name, step=self, shape_name=STEP_TYPES[step.type].description
        )
        self.cache_config = _cache(step.cache)
        # The SDK's compiler looks for these two on every step.
        self.step_args: None = None
        self.property_files = [
            PropertyFile(name=file.name, output_name=file.output_name, path=file.file_path)
            for file in step.property_files
        ]
        self._function, self._outputs = step.function, step.output_parameters

    @property
    def arguments(self) -> dict[str, Any]:
        return self._arguments

    @property
    def properties(self) -> Properties:
        return self._properties

    def to_request(self) -> dict[str, Any]:
        request: dict[str, Any] = super().to_request()
        if self.cache_config is not None:
            request.update(self.cache_config.config)
        if self.property_files:
            request["PropertyFiles"] = [file.expr for file in self.property_files]
        if self._function is not None:
            request["FunctionArn"] = self._function
            request["OutputParameters"] = [
                {"OutputName": output.name, "OutputType": output.type} for output in self._outputs
            ]
        return request


def _parameter(declared: model.Parameter) -> Parameter:
    allowed = {} if declared.allowed is None else {"enum_values": list(declared.allowed)}
    return _PARAMETERS[declared.type](declared.name, default_value=declared.default, **allowed)


def _dependency(dependency: model.Dependency) -> str | StepDependency:
    if dependency.trigger == model.Dependency.trigger:
        return dependency.step
    return StepDependency(dependency.step, TriggerCondition(dependency.trigger))


def _retry_policy(policy: model.RetryPolicy) -> RetryPolicy:
    def order(kind: Enum) -> int:
        return policy.exception_types.index(kind.value)

    timing = {
        "backoff_rate": policy.backoff_rate,
        "interval_seconds": policy.interval_seconds,
        "max_attempts": policy.max_attempts,
        "expire_after_mins": policy.expire_after_minutes,
    }
    # Called with a value, the SDK's enumerations answer with their first member.
    calls, jobs = (
        [each for each in kind if each.value in policy.exception_types]
        for kind in (StepExceptionTypeEnum, SageMakerJobExceptionTypeEnum)
    )
    if len(calls) == len(policy.exception_types):
        return StepRetryPolicy(sorted(calls, key=order), **timing)
    if len(jobs) == len(policy.exception_types):
        return SageMakerJobStepRetryPolicy(sorted(jobs, key=order), **timing)
    names = ", ".join(policy.exception_types)
    raise ValueError(f"the SDK has no retry policy for {names} together")


def _cache(policy: model.CachePolicy | None) -> CacheConfig | None:
    if policy is None:
        return None
    limit = policy.expire_after
    expiry = None if limit is None else format_duration(limit)
    return CacheConfig(enable_caching=True, expire_after=expiry)
