"""What cannot run here is refused by name, all reasons at once, before anything starts."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from compilegate.cli import main
from compilegate.document.reading import read_definition
from compilegate.errors import CompilegateError
from compilegate.local import (
    ExecutionError,
    ImageSources,
    LocalExecutor,
    parse_handler,
)
from tests.local.conftest import HERE, Json, Workbench, changed

REPORT = {"PropertyFileName": "Report", "OutputName": "out", "FilePath": "r.json"}
READS = {"data": "s3://bucket/code"}


def steps_of(bench: Workbench) -> dict[str, Json]:
    """A step of each type that would run."""
    bench.put("s3://bucket/model", b"")
    return {
        "make": bench.model("make", "s3://bucket/model"),
        "train": bench.training("train", channels=READS),
        "job": bench.processing("job", inputs=READS, outputs=["out"]),
        "register": bench.register("register", "g", "s3://bucket/model"),
        "transform": bench.transform("transform", "make", "s3://bucket/code"),
    }


def test_a_type_that_needs_aws_is_refused_with_what_to_do(bench: Workbench) -> None:
    kinds = ["AutoML", "Callback", "QualityCheck", "ClarifyCheck", "EMR"]
    found = bench.refused(*({"Name": it, "Type": it, "Arguments": {}} for it in kinds))
    assert [problem.partition(":")[0] for problem in found] == kinds
    for it, kind in zip(found, kinds, strict=True):
        assert it.endswith(f"(--command {kind}=COMMAND), or leave it out (--skip {kind})")


CHANNEL = "InputDataConfig.0"
S3 = f"{CHANNEL}.DataSource.S3DataSource"
ALGORITHM = "AlgorithmSpecification"
RESOURCES = "ResourceConfig"
GROUPS = [{"InstanceGroupName": name, "InstanceCount": 1} for name in ("data", "dnn")]
MOST = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 16}
PROGRAM = "AppSpecification.ContainerEntrypoint"
OUTPUT = "ProcessingOutputConfig.Outputs.0.S3Output.S3Uri"
SECONDS = "StoppingCondition.MaxRuntimeInSeconds"
GROUP = "ModelPackageGroupName"
CONTAINERS = "InferenceSpecification.Containers"

REQUESTS: dict[str, list[tuple[Json, str]]] = {
    "train": [
        ({f"{CHANNEL}.InputMode": "Pipe"}, "InputMode is 'Pipe'; supported here: File, FastFile"),
        ({f"{CHANNEL}.CompressionType": "Gzip"}, "'Gzip'; supported here: None"),
        ({f"{CHANNEL}.ChannelName": "../up"}, "ChannelName '../up' may hold"),
        ({f"{CHANNEL}.DataSource": {"FileSystemDataSource": {}}}, "FSx and EFS are not mounted"),
        ({f"{S3}.S3Uri": 3}, "S3Uri is 3, expected a string"),
        ({f"{S3}.S3Uri": "s3://b/../x"}, "is not of the form"),
        ({f"{S3}.S3DataType": "ManifestFile"}, "'ManifestFile'; supported here: S3Prefix"),
        ({"InputDataConfig": [3]}, "expected a list of objects"),
        ({"HyperParameters": {}}, "nothing says what to run"),
        ({"HyperParameters.a": 1}, "HyperParameters.a is 1, expected a string"),
        ({"HyperParameters.sagemaker_mpi_enabled": "true"}, "use torchrun"),
        (
            {"HyperParameters.sagemaker_training_compiler_enabled": "true"},
            "needs SageMaker Training Compiler, which only AWS's images have; run it on SageMaker",
        ),
        *(
            ({"HyperParameters.sagemaker_program": json.dumps(it)}, f"program is {it!r}")
            for it in ("/bin/train.py", "../train.py", "-c")
        ),
        ({"OutputDataConfig": None}, "OutputDataConfig is missing"),
        ({ALGORITHM: {"AlgorithmName": "a"}}, "TrainingImage is missing"),
        ({f"{ALGORITHM}.TrainingInputMode": ["File"]}, "is ['File'], expected a string"),
        (
            {f"{ALGORITHM}.MetricDefinitions": [{"Name": "m", "Regex": "("}]},
            "the Regex of metric m is malformed",
        ),
        ({f"{RESOURCES}.InstanceType": "ml.trn1.2xlarge"}, "needs Trainium or Inferentia"),
        ({f"{RESOURCES}.InstanceCount": 0}, "InstanceCount is 0, expected 1 to 16"),
        ({f"{RESOURCES}.InstanceCount": "two"}, "InstanceCount"),
        ({RESOURCES: {"InstanceGroups": GROUPS}}, "InstanceGroups names 2"),
        ({RESOURCES: MOST, "Environment.COMPILEGATE_PROCESSES": "8"}, "128 processes"),
        ({f"{S3}.S3Typ": "x"}, "InputDataConfig[0].DataSource.S3DataSource.S3Typ: "),
        ({"InputDataConfg": []}, "did you mean InputDataConfig?"),
    ],
    "job": [
        ({SECONDS: "1"}, "expected a whole number"),
        ({SECONDS: -5}, "expected 1 to 2419200"),
        ({"Environment": {"A=B": "x"}}, "names the variable 'A=B'"),
        ({"Environment": {"A": "x\0y"}}, "Environment.A is 'x\\x00y'"),
        ({"ProcessingResources": None}, "ProcessingResources"),
        ({"ProcessingInputs": [{"InputName": "x", "DatasetDefinition": {}}]}, "needs AWS"),
        ({"ProcessingInputs.0.S3Input.LocalPath": "in"}, "must be absolute"),
        ({"AppSpecification": {"ImageUri": "x"}}, "ContainerEntrypoint is missing"),
        ({PROGRAM: ["no-such-program", "x"]}, "its program no-such-program is "),
        ({OUTPUT: "s3://b//o"}, "its output: 's3://b//o'"),
    ],
    "register": [
        ({"ModelPackageName": "p"}, "(a package without versions) is not supported"),
        *(({GROUP: name}, f"{GROUP} is ") for name in ("../g", "", "a" * 64)),
        ({"ModelApprovalStatus": "Yes"}, "is 'Yes', expected Approved"),
        ({CONTAINERS: [{"ModelDataUrl": 1}]}, "expected a string"),
        ({f"{CONTAINERS}.0.ModelDataUrl": "s3://b/none"}, "s3://b/none is not in the local store"),
        ({"Zoo": {}}, "Zoo: "),
    ],
    "transform": [
        ({"TransformInput.SplitType": "RecordIO"}, "is 'RecordIO'; supported here"),
        ({"DataProcessing": {"OutputFilter": "$..x"}}, "OutputFilter: '$..x' is not supported"),
        (
            {"TransformInput.SplitType": "None", "DataProcessing": {"JoinSource": "Input"}},
            "needs TransformInput.SplitType Line",
        ),
        ({"ModelName": "elsewhere"}, "ModelName is 'elsewhere', which no Model step"),
    ],
}


def test_each_request_that_cannot_be_carried_out_is_named(bench: Workbench) -> None:
    """One definition has a step for each line of the table, so that it is looked at once."""
    bases = steps_of(bench)
    # So that each refusal is of what its line changes; free members are free.
    bases["register"] = changed(bases["register"], {f"{CONTAINERS}.0.Environment": {"any": "x"}})
    whole = bench.definition(*bases.values())
    executor = LocalExecutor(home=bench.home, definition=whole, images=HERE)
    assert executor.explain("bases", {}).faults == ()
    steps, expected = [bases["make"]], {}
    for kind, lines in REQUESTS.items():
        for index, (members, reason) in enumerate(lines):
            steps.append(changed(bases[kind], members) | {"Name": f"{kind}-{index}"})
            expected[f"{kind}-{index}"] = reason
    problems = bench.refused(*steps)
    found = dict(problem.split(": ", 1) for problem in problems)
    assert sorted(found) == sorted(expected)
    assert len(problems) == len(found)
    assert {name: it for name, it in found.items() if expected[name] not in it} == {}


def json_get(name: str, path: str) -> Json:
    return {
        "Std:JsonGet": {"PropertyFile": {"Get": f"Steps.make.PropertyFiles.{name}"}, "Path": path}
    }


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ({"Get": "Parameters.Nope"}, "Get 'Parameters.Nope' names nothing"),
        ({"Get": "Steps.nobody.X"}, "Get Steps.nobody.X names no step of this definition"),
        ({"Get": "Steps.train.TrainingJobNam"}, "a local Training step has AlgorithmSpecification"),
        ({"Get": "Steps.train.InputDataConfig['x'].ChannelName"}, "has no 'x'"),
        ({"Get": "Steps.stop.Anything"}, "a local Fail step has"),
        ({"Get": "Steps.greet.OutputParameters['y']"}, "greet declares the OutputParameters"),
        (json_get("No", "a"), "make declares the property files ['Report']"),
    ],
)
def test_a_reference_to_nothing_is_named(bench: Workbench, argument: Any, reason: str) -> None:
    greet = {"Name": "greet", "Type": "Lambda", "FunctionArn": "arn:f", "Arguments": {}}
    (found,) = bench.refused(
        bench.training("train"),
        bench.processing("make", outputs=["out"], PropertyFiles=[REPORT]),
        greet | {"OutputParameters": [{"OutputName": "text", "OutputType": "String"}]},
        bench.condition("decide", bench.equals(1, 2), then=[bench.fail("stop")]),
        bench.processing("read", arguments=[argument]),
        functions=(("*", parse_handler(__file__)),),
    )
    assert reason in found


def test_steps_that_do_not_fit_together_are_named(bench: Workbench) -> None:
    circle = [bench.processing(one, DependsOn=[other]) for one, other in ("ac", "ba", "cb")]
    assert bench.refused(*circle) == ["the steps a -> b -> c -> a wait for each other"]
    condition = bench.equals({"Get": "Steps.inner.ProcessingJobName"}, "x")
    (found,) = bench.refused(bench.condition("decide", condition, then=[bench.processing("inner")]))
    assert "wait for each other" in found
    twice, slash = bench.refused(
        bench.processing("twice"),
        bench.condition("decide", bench.equals(1, 1), then=[bench.processing("twice")]),
        bench.processing("a/b"),
    )
    assert twice == "twice: 2 steps have this name; names must be unique"
    assert slash.startswith("'a/b': a step's name has ")
    (found,) = bench.refused(
        bench.processing("make", outputs=["report", "model"], PropertyFiles=[REPORT])
    )
    assert found.startswith("make: the property file Report ")
    assert "'out'" in found
    assert found.endswith("report, model")
    (found,) = bench.refused(
        bench.processing("make", outputs=["x"]),
        bench.processing("read", inputs={"x": "s3://bucket/make/x"}),
    )
    assert "make writes it, but may still run when read starts" in found
    assert found.endswith("add make to DependsOn of read")


def test_an_unknown_image_and_a_name_unfit_for_a_folder_are_refused(bench: Workbench) -> None:
    images = ImageSources(root=bench.home, patterns=(("*/processing:*", "here"),))
    (found,) = bench.refused(bench.training("train"), bench.processing("p"), images=images)
    assert found.startswith("train: no Python environment is named for the image ")
    assert f"{bench.home} has no folder training" in found
    assert "--image '*training*=here'" in found
    with pytest.raises(ExecutionError, match=r"the pipeline's name is '\.\./x'"):
        bench.run(bench.fail("stop"), pipeline_name="../x")


def test_a_parameter_without_a_value_hides_no_other_refusal(bench: Workbench) -> None:
    def value(name: str) -> Json:
        return {"Get": f"Parameters.{name}"}

    members = {
        "HyperParameters.rate": {"Std:Join": {"On": "", "Values": [value("Rate")]}},
        f"{S3}.S3Uri": value("Data"),
        f"{ALGORITHM}.TrainingImage": value("Image"),
        f"{ALGORITHM}.TrainingInputMode": value("Mode"),
        f"{RESOURCES}.InstanceCount": value("Count"),
    }
    types = {"Rate": "Float", "Data": "String", "Image": "String", "Mode": "String"}
    names = [{"Name": name, "Type": kind} for name, kind in {**types, "Count": "Integer"}.items()]
    found = bench.refused(
        changed(bench.training("train", channels=READS), members),
        bench.processing("read", inputs={"x": "s3://bucket/absent"}),
        bench.condition("decide", {"Type": "Odd"}),
        parameters=names,
        given={"Mode": "File", "Count": "two"},
    )
    assert [re.split("[ :]", reason)[:2] for reason in found] == [
        *(["parameter", name] for name in ("Rate", "Data", "Image", "Count")),
        ["decide", ""],
        ["read", ""],
    ]


def a_step(**members: Any) -> str:
    return json.dumps({"Steps": [{"Name": "a", "Type": "Fail", **members}]})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "the definition is not JSON"),
        ("[]", "the definition is [], expected an object"),
        ('{"Version": "2020-12-01", "Steps": []}', "there is nothing to run"),
        ('{"Version": "1", "Steps": {}}', "Version is '1', expected '2020-12-01'"),
        ('{"Steps": [{"Type": "Fail"}]}', "a step has no Name"),
        ('{"Steps": [{"Name": "a"}]}', "a: a step needs a Type"),
        ('{"Parameters": [{"Name": "p", "Type": "Date"}]}', "parameter p: Type is 'Date'"),
        (a_step(DependsOn=[{"Step": "b", "Trigger": "Odd"}]), "Trigger is 'Odd'"),
        (
            a_step(CacheConfig={"Enabled": True, "ExpireAfter": "soon"}),
            "ExpireAfter is 'soon', expected an ISO 8601 duration",
        ),
        (
            a_step(RetryPolicies=[{"ExceptionType": ["x"], "MaxAttempts": "a"}]),
            "RetryPolicies[0]: MaxAttempts is 'a', expected a number",
        ),
        (a_step(PropertyFiles=[{}]), "PropertyFiles[0] needs PropertyFileName"),
    ],
)
def test_a_malformed_definition_says_where(text: str | bytes, reason: str) -> None:
    _, faults = read_definition(text)
    assert any(reason in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "bucket=folder"], "--data is 'bucket=folder', expected s3://BUCKET"),
        (["--data", "s3://b=nowhere"], "--data: nowhere holds nothing"),
        (["--env", "SURELY_UNSET"], "--env SURELY_UNSET has no value in this shell"),
        (
            [],
            "p: s3://bucket/absent is not in the local store, and no step before writes it; put "
            "its files at {home}/s3/bucket/absent, or give their place: --data "
            "s3://bucket/absent=FOLDER (=later if a program writes them while it runs)",
        ),
    ],
)
def test_the_command_refuses_with_status_2(
    bench: Workbench, arguments: list[str], sentence: str
) -> None:
    file = bench.written(bench.processing("p", inputs={"x": "s3://bucket/absent"}))
    command = ["pipeline", "run", str(file), "--home", str(bench.home), "--image", "*=here"]
    found = CliRunner().invoke(main, [*command, *arguments])
    assert found.exit_code == 2
    assert sentence.format(home=bench.home) in " ".join(found.output.split())


SHIPPED = Path(__file__).parents[1] / "mission" / "golden" / "definitions" / "digits-cnn.json"
ODD = (None, True, -1, 1.5, "x", [], [None], [{}], {}, {"a": 1}, {"Get": 3})
JOINED = {"Std:Join": {"On": 1, "Values": [2]}}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object and array in it, each with its keys."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


@given(st.data())
def test_whatever_stands_in_a_definition_it_runs_or_is_refused(data: st.DataObject) -> None:
    document = json.loads(SHIPPED.read_text(encoding="utf-8"))
    part, key = data.draw(st.sampled_from(list(places(document))))
    part[key] = data.draw(st.sampled_from([*ODD, JOINED]))
    with contextlib.suppress(CompilegateError):
        executor = LocalExecutor(definition=json.dumps(document), home=Path("/absent"), images=HERE)
        executor.explain("digits-cnn", {})
