"""The definition on its way through CloudFormation: compiled once, completed there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.account.settings import Names, Settings
from tests.infra.assembly import ACCOUNT, REGION, Assembly

FOUNDATION, WORKLOAD = "compilegate-foundation", "compilegate-workload-topics"
QUALIFIER = Names(Settings(project="compilegate")).qualifier
ASSETS = f"s3://cdk-{QUALIFIER}-assets-{ACCOUNT}-{REGION}"


def definition(assembly: Assembly, stack: str = WORKLOAD) -> str:
    pipeline = assembly.one(stack, "AWS::SageMaker::Pipeline")
    text: str = pipeline.properties["PipelineDefinition"]["PipelineDefinitionBody"]
    return text


@pytest.mark.slow
def test_no_stand_in_is_left(assembly: Assembly) -> None:
    text = definition(assembly)
    assert "standin" not in text
    assert "999999999999" not in text
    assert "${" not in text


@pytest.mark.slow
def test_jobs_have_the_tags_of_the_settings(assembly: Assembly) -> None:
    """A job takes no tag of the pipeline's, and a budget counts it by its own."""
    tags = {
        (tag["Key"], tag["Value"])
        for step in json.loads(definition(assembly, "neighbour-workload-topics"))["Steps"]
        for tag in step["Arguments"].get("Tags", [])
    }
    assert {("compilegate:project", "neighbour"), ("owner", "ml-platform")} <= tags


@pytest.mark.slow
def test_it_names_what_the_other_stacks_made(assembly: Assembly) -> None:
    steps = {step["Name"]: step["Arguments"] for step in json.loads(definition(assembly))["Steps"]}
    foundation, images = assembly.outputs(FOUNDATION), assembly.outputs("compilegate-images")
    outputs = assembly.outputs(WORKLOAD)
    train, prepare = steps["Train-baseline-7"], steps["Prepare"]
    assert train["RoleArn"] == outputs["TrainingRoleArn"]
    assert prepare["RoleArn"] == outputs["ProcessingRoleArn"]
    assert train["AlgorithmSpecification"]["TrainingImage"] == images["ImageUriTraining"]
    assert steps["Gate"]["AppSpecification"]["ImageUri"] == images["ImageUriGate"]
    assert train["OutputDataConfig"] == {
        "S3OutputPath": f"s3://{foundation['BucketName']}/compilegate/workloads/topics/training",
        "KmsKeyId": foundation["KeyArn"],
    }


@pytest.mark.slow
def test_its_code_is_uploaded_under_the_names_it_uses(assembly: Assembly) -> None:
    text, outputs = definition(assembly), assembly.outputs(WORKLOAD)
    (assets,) = assembly.folder.glob(f"*/{WORKLOAD}.assets.json")
    manifest = json.loads(assets.read_text())["files"]
    uploaded = {
        f"s3://{destination['bucketName']}/{destination['objectKey']}": assets.parent
        / file["source"]["path"]
        for file in manifest.values()
        for destination in file["destinations"].values()
    }
    for name in ("TrainingArchiveUri", "TrainingCodeUri", "GateCodeUri", "ExperimentUri"):
        assert outputs[name] in text, name
        assert outputs[name].startswith(f"{ASSETS}/"), name
        assert uploaded[outputs[name]].suffix == Path(outputs[name]).suffix, name
    assert uploaded[outputs["TrainingCodeUri"]].read_bytes().startswith(b"PK")
    assert uploaded[outputs["TrainingArchiveUri"]].read_bytes().startswith(b"\x1f\x8b")
    assert outputs["DataUri"] in text


@pytest.mark.slow
def test_it_is_what_the_client_compiles_from_the_stacks_outputs(assembly: Assembly) -> None:
    from compilegate.document.writing import compact  # noqa: PLC0415
    from compilegate.pipelines.compilation import compile_definition  # noqa: PLC0415
    from compilegate.pipelines.deployment import Deployment, Sources  # noqa: PLC0415
    from compilegate.workload import read_workload  # noqa: PLC0415

    foundation, images = assembly.outputs(FOUNDATION), assembly.outputs("compilegate-images")
    outputs = assembly.outputs(WORKLOAD)
    compiled = compile_definition(
        read_workload(Path(__file__).parent / "project" / "workloads" / "topics.toml"),
        Deployment(
            region=REGION,
            bucket=foundation["BucketName"],
            training_role_arn=outputs["TrainingRoleArn"],
            processing_role_arn=outputs["ProcessingRoleArn"],
            kms_key=foundation["KeyArn"],
            images={"training": images["ImageUriTraining"], "gate": images["ImageUriGate"]},
            name_prefix="compilegate-",
            tags={"compilegate:project": "compilegate"},
        ),
        Sources(
            training_archive=outputs["TrainingArchiveUri"],
            training_code=outputs["TrainingCodeUri"],
            gate_code=outputs["GateCodeUri"],
            experiment=outputs["ExperimentUri"],
            data=outputs["DataUri"],
        ),
    )
    assert definition(assembly) == compact(compiled)


@pytest.mark.slow
def test_a_token_is_written_once_however_often_it_is_named(assembly: Assembly) -> None:
    resources = assembly.templates[WORKLOAD]["Resources"].values()
    (body,) = (
        resource["Properties"]["PipelineDefinition"]["PipelineDefinitionBody"]
        for resource in resources
        if resource["Type"] == "AWS::SageMaker::Pipeline"
    )
    text, variables = body["Fn::Sub"]
    assert text.count("${TrainingRoleArn}") == 4
    assert variables.keys() == {
        "Bucket",
        "ImagesGate",
        "ImagesTraining",
        "KmsKey",
        "ProcessingRoleArn",
        "TrainingRoleArn",
    }


@pytest.mark.slow
def test_text_that_looks_like_a_variable_stays_text() -> None:
    from aws_cdk import App, CfnOutput, Stack  # noqa: PLC0415

    from compilegate.infra.workload.substitution import completed_by_cloudformation  # noqa: PLC0415

    stack = Stack(App(), "Sub")
    token = completed_by_cloudformation(
        '{"Regex":"${HOME}","Role":"stand-in"}',
        stand_ins={"role_arn": "stand-in"},
        values={"role_arn": stack.stack_id},
    )
    CfnOutput(stack, "Text", value=token)
    text, variables = stack.resolve(token)["Fn::Sub"]
    assert text == '{"Regex":"${!HOME}","Role":"${RoleArn}"}'
    assert variables == {"RoleArn": {"Ref": "AWS::StackId"}}


@pytest.mark.slow
def test_the_largest_experiment_fits_into_a_template() -> None:
    from compilegate.infra.workload.substitution import (  # noqa: PLC0415
        LARGEST_DEFINITION,
        DefinitionSizeError,
        check_size,
        size_in_template,
    )

    text = largest_definition()
    assert text.count('"Type":"Training"') == 63
    check_size("largest", text)
    assert size_in_template(text) < LARGEST_DEFINITION / 2
    with pytest.raises(DefinitionSizeError, match=r"workloads/larger\.toml: .*fewer arms or seeds"):
        check_size("larger", text * 4)


def largest_definition() -> str:
    """Of as many training jobs as one execution can have, with stand-ins."""
    from compilegate.infra.project import DeclaredWorkload, read_project  # noqa: PLC0415
    from compilegate.infra.workload.definition import incomplete_definition  # noqa: PLC0415

    project = read_project(Path(__file__).parent / "project")
    declared = next(one for one in project.workloads if one.workload.name == "topics")
    arms = declared.workload.arms
    many = {"baseline": arms["baseline"]} | {f"arm-{n}": arms["compiled"] for n in range(1, 7)}
    workload = replace(declared.workload, arms=many, seeds=tuple(range(1, 10)))
    return incomplete_definition(
        project, DeclaredWorkload(workload=workload, path=declared.path)
    ).text


SYNTH = """
import json, sys
from dataclasses import replace
from pathlib import Path
from compilegate.infra.project import read_project
from compilegate.infra.workload.definition import incomplete_definition
project = read_project(Path(sys.argv[1]))
text = incomplete_definition(project, project.workloads[0], project.settings.region).text
print(json.dumps({"sdk": "sagemaker" in sys.modules, "text": text}))
"""


@pytest.mark.slow
def test_a_definition_that_is_known_costs_no_import_of_the_sdk(assembly: Assembly) -> None:
    """The synth of these tests has compiled it, and another process finds it."""
    run = subprocess.run(
        [sys.executable, "-c", SYNTH, str(Path(__file__).parent / "project")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(run.stdout)
    assert answer["sdk"] is False, "it was compiled again"
    assert '"Name":"Train-compiled-8"' in answer["text"]
