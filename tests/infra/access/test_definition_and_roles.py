"""The deployed definition against the roles it names: each may do what its steps ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.infra.access.policy_engine import Question, ask
from tests.infra.assembly import ACCOUNT, REGION, Assembly, Resource

pytestmark = pytest.mark.slow

WORKLOADS = ("compilegate-workload-topics", "compilegate-workload-watched")
STEP = re.compile(r"Steps\.([\w-]+)\.(.+)")
OUTPUT = re.compile(r"OutputParameters\['(\w+)'\]")
PART = re.compile(r"(\w+)(?:\['(\w+)'\])?")

Step = dict[str, Any]


class Deployed:
    """A definition, with what its variables are in some execution."""

    def __init__(self, assembly: Assembly, workload: str) -> None:
        pipeline = assembly.one(workload, "AWS::SageMaker::Pipeline")
        document = json.loads(pipeline.properties["PipelineDefinition"]["PipelineDefinitionBody"])
        self.parameters = {item["Name"]: item["DefaultValue"] for item in document["Parameters"]}
        self.steps = {step["Name"]: step for step in _all_steps(document["Steps"])}
        self.role_arn = pipeline.properties["RoleArn"]

    def text(self, value: Any) -> str:
        """What a value is when its step starts."""
        if not isinstance(value, dict):
            return str(value)
        if "Std:Join" in value:
            join = value["Std:Join"]
            return str(join["On"]).join(self.text(item) for item in join["Values"])
        name = value["Get"]
        if name.startswith("Parameters."):
            return str(self.parameters[name.removeprefix("Parameters.")])
        if name.startswith("Execution."):
            return "abcdefghijkl"
        found = STEP.fullmatch(name)
        assert found is not None, name
        return self._of_step(found[1], found[2])

    def _of_step(self, name: str, path: str) -> str:
        job = f"pipelines-abcdefghijkl-{name}"
        if path in ("TrainingJobName", "ProcessingJobName"):
            return job
        arguments: Any = self.steps[name]["Arguments"]
        if (output := OUTPUT.fullmatch(path)) is not None:
            # What a function answers is what it was given for some arm.
            given = [key for key in arguments if key.startswith(f"{output[1]}--")]
            return self.text(arguments[given[0]]) if given else output[1]
        if path == "ModelArtifacts.S3ModelArtifacts":
            output = self.text(arguments["OutputDataConfig"]["S3OutputPath"])
            return f"{output}/{job}/output/model.tar.gz"
        for key, chosen in PART.findall(path):
            arguments = arguments[key]
            if chosen:
                (arguments,) = (item for item in arguments if item["OutputName"] == chosen)
        return self.text(arguments)


def _all_steps(steps: list[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for branch in ("IfSteps", "ElseSteps"):
            yield from _all_steps(step.get("Arguments", {}).get(branch, []))


@pytest.mark.long
@pytest.mark.slow
def test_every_role_may_do_what_the_definition_asks_of_it(assembly: Assembly) -> None:
    questions = [question for name in WORKLOADS for question in _questions(assembly, name)]
    assert {question.action for question in questions} == {
        "ecr:BatchGetImage",
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
    answers = ask(assembly, questions)
    refused = [
        str(question)
        for question, answer in zip(questions, answers, strict=True)
        if answer != "Allowed"
    ]
    assert refused == []


def _questions(assembly: Assembly, workload: str) -> Iterator[Question]:
    deployed = Deployed(assembly, workload)
    roles = {role.arn: role for role in assembly.resources(workload, "AWS::IAM::Role")}
    pipeline = roles[deployed.role_arn]
    for name, step in deployed.steps.items():
        arguments = step["Arguments"]
        match step["Type"]:
            case "Training" | "Processing" as kind:
                role = roles[arguments["RoleArn"]]
                yield from _of_starting(pipeline, role, kind, name, arguments["Tags"])
                yield from _of_job(deployed, role, arguments)
            case "RegisterModel":
                (container,) = arguments["InferenceSpecification"]["Containers"]
                yield _pull(pipeline, deployed.text(container["Image"]))
                model = _object(deployed.text(container["ModelDataUrl"]))
                yield Question(pipeline, "s3:GetObject", model)
                group = f"model-package/{arguments['ModelPackageGroupName']}/1"
                yield Question(pipeline, "sagemaker:CreateModelPackage", _sagemaker(group))
            case "Lambda":
                yield Question(pipeline, "lambda:InvokeFunction", step["FunctionArn"])
            case "Condition" if "Decide-none" in deployed.steps:
                verdict = deployed.text(
                    {"Get": "Steps.Gate.ProcessingOutputConfig.Outputs['verdict'].S3Output.S3Uri"}
                )
                yield Question(pipeline, "s3:GetObject", _object(f"{verdict}/verdict.json"))


def _of_starting(
    pipeline: Resource, role: Resource, kind: str, name: str, tags: list[dict[str, str]]
) -> Iterator[Question]:
    job = _sagemaker(f"{kind.lower()}-job/pipelines-abcdefghijkl-{name}")
    asked = {f"aws:RequestTag/{tag['Key']}": tag["Value"] for tag in tags}
    yield Question(pipeline, f"sagemaker:Create{kind}Job", job, asked)
    tagging = {**asked, "sagemaker:TaggingAction": f"Create{kind}Job"}
    yield Question(pipeline, "sagemaker:AddTags", job, tagging)
    to_sagemaker = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    yield Question(pipeline, "iam:PassRole", role.arn, to_sagemaker)


def _of_job(deployed: Deployed, role: Resource, arguments: Mapping[str, Any]) -> Iterator[Question]:
    """Whatever URI a request names is read, and some are written."""
    for uri in _uris(deployed, arguments):
        yield Question(role, "s3:GetObject", _object(uri))
    for uri in _outputs(deployed, arguments):
        yield Question(role, "s3:PutObject", _object(f"{uri}/x"))
    checkpoints = arguments.get("CheckpointConfig")
    if checkpoints is not None:
        uri = deployed.text(checkpoints["S3Uri"])
        for action in ("s3:PutObject", "s3:GetObject", "s3:DeleteObject"):
            yield Question(role, action, _object(f"{uri}/x"))
    specification = arguments.get("AlgorithmSpecification") or arguments["AppSpecification"]
    yield _pull(role, specification.get("TrainingImage") or specification["ImageUri"])
    resources = arguments.get("ResourceConfig") or arguments["ProcessingResources"]["ClusterConfig"]
    if "VolumeKmsKeyId" in resources:
        for_a_service = {"kms:GrantIsForAWSResource": "true"}
        yield Question(role, "kms:CreateGrant", resources["VolumeKmsKeyId"], for_a_service)
    output = arguments.get("OutputDataConfig") or arguments["ProcessingOutputConfig"]
    yield Question(role, "kms:GenerateDataKey", output["KmsKeyId"])


def _uris(deployed: Deployed, value: Any) -> Iterator[str]:
    """Every URI in a request, whole."""
    if isinstance(value, dict) and not {"Get", "Std:Join"} & value.keys():
        for item in value.values():
            yield from _uris(deployed, item)
    elif isinstance(value, list):
        for item in value:
            yield from _uris(deployed, item)
    elif (text := deployed.text(value).strip('"')).startswith("s3://"):
        yield text


def _outputs(deployed: Deployed, arguments: Mapping[str, Any]) -> Iterator[str]:
    if "OutputDataConfig" in arguments:
        yield deployed.text(arguments["OutputDataConfig"]["S3OutputPath"])
    for output in arguments.get("ProcessingOutputConfig", {}).get("Outputs", []):
        yield deployed.text(output["S3Output"]["S3Uri"])


def _object(uri: str) -> str:
    return f"arn:aws:s3:::{uri.removeprefix('s3://')}"


def _sagemaker(resource: str) -> str:
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{resource}"


def _pull(role: Resource, image: str) -> Question:
    account, _, repository = image.partition(f".dkr.ecr.{REGION}.amazonaws.com/")
    name = repository.partition(":")[0]
    return Question(role, "ecr:BatchGetImage", f"arn:aws:ecr:{REGION}:{account}:repository/{name}")
