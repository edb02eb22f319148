"""The templates of a synth as plain data, and what CloudFormation would make of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
REGION = "us-east-1"
PSEUDO_PARAMETERS = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::URLSuffix": "amazonaws.com",
    "Version": "3",
}
"""And the parameter of an endpoint's stack: the version that answers."""
ARNS = {
    "AWS::IAM::Role": "iam::ACCOUNT:role/NAME",
    "AWS::IAM::OIDCProvider": "iam::ACCOUNT:oidc-provider/NAME",
    "AWS::KMS::Key": "kms:REGION:ACCOUNT:key/NAME",
    "AWS::S3::Bucket": "s3:::NAME",
    "AWS::ECR::Repository": "ecr:REGION:ACCOUNT:repository/NAME",
    "AWS::SNS::Topic": "sns:REGION:ACCOUNT:NAME",
    "AWS::SQS::Queue": "sqs:REGION:ACCOUNT:NAME",
    "AWS::Events::Rule": "events:REGION:ACCOUNT:rule/NAME",
    "AWS::DynamoDB::Table": "dynamodb:REGION:ACCOUNT:table/NAME",
    "AWS::Lambda::Function": "lambda:REGION:ACCOUNT:function:NAME",
    "AWS::CodeBuild::Project": "codebuild:REGION:ACCOUNT:project/NAME",
    "AWS::SageMaker::Model": "sagemaker:REGION:ACCOUNT:model/NAME",
    "AWS::SageMaker::EndpointConfig": "sagemaker:REGION:ACCOUNT:endpoint-config/NAME",
    "AWS::SageMaker::ModelPackageGroup": "sagemaker:REGION:ACCOUNT:model-package-group/NAME",
}
NAMES = (
    "BucketName",
    "RepositoryName",
    "TopicName",
    "FunctionName",
    "RoleName",
    "PipelineName",
    "ModelPackageGroupName",
    "LogGroupName",
    "AlarmName",
    "ModelName",
    "EndpointConfigName",
    "EndpointName",
    "Name",
)
"""Properties that give a resource its physical name, where it has one."""
NAMED_AFTER_THE_STACK = (
    *("AWS::DynamoDB::Table", "AWS::IAM::Role", "AWS::KMS::Key", "AWS::SQS::Queue"),
)
REFERENCE_IS_THE_ARN = ("AWS::SNS::Topic", "AWS::SageMaker::ModelPackageGroup")


@dataclass(frozen=True)
class Resource:
    """One resource of a template."""

    stack: str
    logical_id: str
    type: str
    properties: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its physical name; where CloudFormation makes one, the logical id stands for it."""
        given = (self.properties[key] for key in NAMES if key in self.properties)
        return next(given, self.logical_id)

    @property
    def arn(self) -> str:
        # CloudFormation begins the names that it makes with the stack's.
        made = self.name == self.logical_id and self.type in NAMED_AFTER_THE_STACK
        name = f"{self.stack}-{self.name}" if made else self.name
        arn = ARNS[self.type].replace("REGION", REGION).replace("ACCOUNT", ACCOUNT)
        return f"arn:aws:{arn.replace('NAME', name)}"


@dataclass(frozen=True)
class Assembly:
    """All templates of a synth, by the name of their stack."""

    folder: Path

    @cached_property
    def templates(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            path.name.removesuffix(".template.json"): json.loads(path.read_text())
            for path in sorted(self.folder.glob("*/*.template.json"))
        }

    def resources(self, stack: str, type: str | None = None) -> list[Resource]:
        """Of one stack, with every token as what CloudFormation would put there."""
        return [
            replace(each, properties=self._value(stack, each.properties))
            for each in self._raw(stack)
            if type in (None, each.type)
        ]

    def all_resources(self, type: str | None = None) -> list[Resource]:
        return [found for stack in self.templates for found in self.resources(stack, type)]

    def one(self, stack: str, type: str, starting: str = "") -> Resource:
        """The one resource of a type whose logical id starts like that."""
        found = self.resources(stack, type)
        (one,) = (each for each in found if each.logical_id.startswith(starting))
        return one

    def outputs(self, stack: str) -> dict[str, str]:
        """What the stack says of itself, without what it exports to other stacks."""
        return {
            name: self._value(stack, output["Value"])
            for name, output in self.templates[stack].get("Outputs", {}).items()
            if not name.startswith("ExportsOutput")
        }

    def accepted(self, stack: str) -> Iterator[tuple[str, str]]:
        """Findings that are accepted in one stack, each with its reason."""
        (file,) = self.folder.glob(f"*/{stack}.metadata.json")
        for entries in json.loads(file.read_text()).values():
            for entry in entries:
                if entry["type"] == "aws:cdk:acknowledged-rules":
                    yield from entry["data"].items()

    def _raw(self, stack: str) -> Iterator[Resource]:
        for logical_id, body in self.templates[stack]["Resources"].items():
            yield Resource(stack, logical_id, body["Type"], body.get("Properties", {}))

    def _value(self, stack: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(stack, item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function == "Ref" or function.startswith("Fn::"):
                return self._call(stack, function, argument)
        return {key: self._value(stack, item) for key, item in value.items()}

    def _call(self, stack: str, function: str, argument: Any) -> Any:
        calls: dict[str, Callable[[], Any]] = {
            "Ref": lambda: PSEUDO_PARAMETERS.get(argument) or self._reference(stack, argument),
            "Fn::GetAtt": lambda: self._attribute(stack, *argument),
            "Fn::ImportValue": lambda: self._exported(argument),
            "Fn::Join": lambda: argument[0].join(self._value(stack, argument[1])),
            "Fn::Split": lambda: self._value(stack, argument[1]).split(argument[0]),
            "Fn::Select": lambda: self._value(stack, argument[1])[int(argument[0])],
            "Fn::GetAZs": lambda: [f"{REGION}{letter}" for letter in "abcdef"],
            "Fn::Sub": lambda: self._substituted(stack, *argument),
        }
        return calls[function]()

    def _substituted(self, stack: str, text: str, variables: Mapping[str, Any]) -> str:
        for name, value in variables.items():
            text = text.replace(f"${{{name}}}", self._value(stack, value))
        return text.replace("${!", "${")

    def _reference(self, stack: str, logical_id: str) -> str:
        target = self._target(stack, logical_id)
        return target.arn if target.type in REFERENCE_IS_THE_ARN else target.name

    def _attribute(self, stack: str, logical_id: str, attribute: str) -> str:
        target = self._target(stack, logical_id)
        return target.arn if attribute == "Arn" else str(self._value(stack, target.name))

    def _target(self, stack: str, logical_id: str) -> Resource:
        return next(raw for raw in self._raw(stack) if raw.logical_id == logical_id)

    def _exported(self, name: str) -> Any:
        for stack, template in self.templates.items():
            for output in template.get("Outputs", {}).values():
                if output.get("Export", {}).get("Name") == name:
                    return self._value(stack, output["Value"])
        raise KeyError(name)
