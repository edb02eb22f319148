"""The deployed definition against the roles it names: each may do what its steps ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from compilegate.document.expressions import (
    EXECUTION_VARIABLES,
    Scope,
    StepReference,
    lookup,
    resolve,
)
from tests.infra.access.engine import Question, Who, refused, role
from tests.infra.assembly import ACCOUNT, REGION, Assembly

pytestmark = pytest.mark.slow

WORKLOADS = ("compilegate-workload-topics", "compilegate-workload-watched")
EXECUTION = "abcdefghijkl"
TO_SAGEMAKER = {"iam:PassedToService": "sagemaker.amazonaws.com"}
FOR_A_SERVICE = {"kms:GrantIsForAWSResource": "true"}
SAGEMAKER = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"

Step = dict[str, Any]


def test_every_role_may_do_what_the_definition_asks_of_it(assembly: Assembly) -> None:
    questions = [question for name in WORKLOADS for question in _questions(assembly, name)]
    assert {question.action for question in questions} == {
        "ecr:BatchGetImage",
        "ecr:DescribeImages",
        "iam:PassRole",
        "kms:CreateGrant",
        "kms:GenerateDataKey",
        "lambda:InvokeFunction",
        "s3:DeleteObject",
        "s3:GetObject",
        "s3:PutObject",
        "sagemaker:AddTags",
        "sagemaker:CreateModelPackage",
        "sagemaker:CreateProcessingJob",
        "sagemaker:CreateTrainingJob",
    }
    assert refused(assembly, questions) == []


def _questions(assembly: Assembly, workload: str) -> Iterator[Question]:
    starting = ("PipelineRole", "ProcessingRole", "TrainingRole")
    roles = {who.arn: who for who in (role(assembly, workload, each) for each in starting)}
    pipeline = assembly.one(workload, "AWS::SageMaker::Pipeline").properties
    who = roles[pipeline["RoleArn"]]
    for step in _resolved(json.loads(pipeline["PipelineDefinition"]["PipelineDefinitionBody"])):
        arguments = step["Arguments"]
        match step["Type"]:
            case "Training" | "Processing" as kind:
                job = f"{SAGEMAKER}:{kind.lower()}-job/{_job(step['Name'])}"
                tags = {f"aws:RequestTag/{tag['Key']}": tag["Value"] for tag in arguments["Tags"]}
                tagging = {**tags, "sagemaker:TaggingAction": f"Create{kind}Job"}
                yield Question(who, f"sagemaker:Create{kind}Job", job, tags)
                yield Question(who, "sagemaker:AddTags", job, tagging)
                yield Question(who, "iam:PassRole", arguments["RoleArn"], TO_SAGEMAKER)
                yield from _of_job(roles[arguments["RoleArn"]], arguments)
            case "RegisterModel":
                (container,) = arguments["InferenceSpecification"]["Containers"]
                for action in ("ecr:BatchGetImage", "ecr:DescribeImages"):
                    yield Question(who, action, _repository(container["Image"]))
                yield Question(who, "s3:GetObject", _object(container["ModelDataUrl"]))
                status = {"sagemaker:ModelApprovalStatus": arguments["ModelApprovalStatus"]}
                model = f"{SAGEMAKER}:model-package/{arguments['ModelPackageGroupName']}/1"
                yield Question(who, "sagemaker:CreateModelPackage", model, status)
            case "Lambda":
                yield Question(who, "lambda:InvokeFunction", step["FunctionArn"])
        for file in step.get("PropertyFiles", []):
            # Conditions read it.
            outputs = arguments["ProcessingOutputConfig"]["Outputs"]
            folder = lookup(outputs, (file["OutputName"], "S3Output", "S3Uri"), by_name=True)
            yield Question(who, "s3:GetObject", _object(f"{folder}/{file['FilePath']}"))


def _resolved(document: dict[str, Any]) -> Iterator[Step]:
    """Every step with its variables as they are in some execution."""
    steps = {step["Name"]: step for step in all_steps(document["Steps"])}

    def read(reference: StepReference) -> Any:
        arguments, path = steps[reference.step]["Arguments"], reference.path
        match path:
            case ("TrainingJobName" | "ProcessingJobName",):
                return _job(reference.step)
            case ("ModelArtifacts", _):
                output = resolve(arguments["OutputDataConfig"]["S3OutputPath"], scope)
                return f"{output}/{_job(reference.step)}/output/model.tar.gz"
            case ("OutputParameters", output):
                # What a function answers is what it was given for some arm.
                given = [key for key in arguments if key.startswith(f"{output}--")]
                return resolve(arguments[given[0]], scope) if given else output
        return resolve(lookup(arguments, path, by_name=True), scope)

    scope = Scope(
        parameters={item["Name"]: item["DefaultValue"] for item in document["Parameters"]},
        execution=dict.fromkeys(EXECUTION_VARIABLES, EXECUTION),
        read_property=read,
        property_file_uri=lambda _: "",
        read_object=None,
    )
    for step in steps.values():
        if step["Type"] != "Condition":
            yield resolve(step, scope)


def all_steps(steps: list[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for branch in ("IfSteps", "ElseSteps"):
            yield from all_steps(step.get("Arguments", {}).get(branch, []))


def _of_job(who: Who, arguments: Step) -> Iterator[Question]:
    """Whatever URI a request names is read, and some are written."""
    for uri in _uris(arguments):
        yield Question(who, "s3:GetObject", _object(uri))
    output = arguments.get("OutputDataConfig") or arguments["ProcessingOutputConfig"]
    yield Question(who, "kms:GenerateDataKey", output["KmsKeyId"])
    for uri in _uris(output):
        yield Question(who, "s3:PutObject", _object(f"{uri}/x"))
    for uri in _uris(arguments.get("CheckpointConfig")):
        for action in ("s3:PutObject", "s3:GetObject", "s3:DeleteObject"):
            yield Question(who, action, _object(f"{uri}/x"))
    image = arguments.get("AlgorithmSpecification") or arguments["AppSpecification"]
    repository = _repository(image.get("TrainingImage") or image["ImageUri"])
    yield Question(who, "ecr:BatchGetImage", repository)
    resources = arguments.get("ResourceConfig") or arguments["ProcessingResources"]["ClusterConfig"]
    if "VolumeKmsKeyId" in resources:
        yield Question(who, "kms:CreateGrant", resources["VolumeKmsKeyId"], FOR_A_SERVICE)


def _uris(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _uris(item)
    elif (text := str(value).strip('"')).startswith("s3://"):
        yield text


def _job(step: str) -> str:
    return f"pipelines-{EXECUTION}-{step}"


def _object(uri: str) -> str:
    return f"arn:aws:s3:::{uri.removeprefix('s3://')}"


def _repository(image: str) -> str:
    account, _, repository = image.partition(f".dkr.ecr.{REGION}.amazonaws.com/")
    return f"arn:aws:ecr:{REGION}:{account}:repository/{repository.partition(':')[0]}"
