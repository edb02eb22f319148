"""What cannot run here is refused by name, all reasons at once, before anything starts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.reading import read_definition
from compilegate.document.step_types import STEP_TYPES
from compilegate.local import ExecutionError, ImageSources, RefusedDefinitionError


def reasons(bench: Any, *steps: Any, **options: Any) -> list[str]:
    with pytest.raises(RefusedDefinitionError) as caught:
        bench.run(*steps, **options)
    assert not (bench.home / "executions").exists()
    return list(caught.value.problems)


def with_resources(bench: Any, **resources: Any) -> dict[str, Any]:
    step: dict[str, Any] = bench.training("train")
    step["Arguments"]["ResourceConfig"] |= resources
    return step


def with_channel(bench: Any, **channel: Any) -> dict[str, Any]:
    step: dict[str, Any] = bench.training("train", channels={"data": "s3://bucket/code"})
    step["Arguments"]["InputDataConfig"][0] |= channel
    return step


def test_all_reasons_are_told_at_once_with_the_steps_they_concern(bench: Any) -> None:
    found = reasons(
        bench,
        {"Name": "tune", "Type": "Tuning", "Arguments": {}},
        {"Name": "serve", "Type": "Endpoint", "Arguments": {}},
        with_resources(bench, InstanceCount=20, InstanceType="ml.trn1.2xlarge"),
        bench.processing("read", inputs={"x": "s3://bucket/absent"}),
        bench.condition("decide", bench.equals({"Get": "Steps.nobody.X"}, 1)),
    )
    allowed = f"only {', '.join(STEP_TYPES)}"

    def remedy(step: str) -> str:
        return f"let a command do it (--command {step}=COMMAND), or leave it out (--skip {step})"

    assert sorted(found) == sorted(
        [
            f"tune: a step of type Tuning cannot run here, {allowed}; {remedy('tune')}",
            f"serve: a step of type Endpoint cannot run here, {allowed}; {remedy('serve')}",
            "train: InstanceCount is 20, allowed here: 1 to 16, because all their processes run on "
            "this machine",
            "read: s3://bucket/absent is not in the local store and no step before it makes it; "
            f"put its files at {bench.home}/s3/bucket/absent, or say where they are: "
            "--data s3://bucket/absent=FOLDER (=later if a program puts them there while it runs)",
            "decide: Get Steps.nobody.X names no step of this definition",
        ]
    )


def test_a_number_of_machines_that_is_none_names_its_step(bench: Any) -> None:
    processing = bench.processing("read")
    del processing["Arguments"]["ProcessingResources"]
    found = reasons(bench, with_resources(bench, InstanceCount="two"), processing)
    assert [reason.partition(":")[0] for reason in found] == ["train", "read"]
    assert "InstanceCount" in found[0]
    assert "ProcessingResources" in found[1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"DataSource": {"FileSystemDataSource": {}}}, "FSx and EFS are not mounted here"),
        ({"InputMode": "Tube"}, "InputMode is 'Tube', allowed here: File, FastFile"),
        ({"CompressionType": "Gzip"}, "CompressionType is 'Gzip', allowed here: None"),
        ({"InputMode": "Pipe"}, "InputMode is 'Pipe', allowed here: File, FastFile; let a command"),
        ({"ChannelName": "../up"}, "ChannelName '../up' may hold"),
        ({"DataSource": {"S3DataSource": {"S3Uri": 3}}}, "S3Uri is 3, expected a string"),
        ({"DataSource": {"S3DataSource": {"S3Uri": "s3://b/../x"}}}, "is not of the form"),
        ({"DataSource": {"S3DataSource": {"S3Uri": "https://b/x"}}}, "is not of the form"),
        (
            {"DataSource": {"S3DataSource": {"S3Uri": "s3://b/x", "S3DataType": "Odd"}}},
            "S3DataType is 'Odd', allowed here: S3Prefix, ManifestFile",
        ),
        (
            {
                "DataSource": {
                    "S3DataSource": {"S3Uri": "s3://b/x", "S3DataType": "AugmentedManifestFile"}
                }
            },
            "S3DataType is 'AugmentedManifestFile', allowed here: S3Prefix, ManifestFile",
        ),
    ],
)
def test_an_input_that_cannot_be_had_is_named(bench: Any, change: Any, reason: str) -> None:
    (found,) = reasons(bench, with_channel(bench, **change))
    assert found.startswith("train: ")
    assert reason in found


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("HyperParameters", {}, "nothing says what to run"),
        ("HyperParameters", {"a": 1}, "HyperParameters.a is 1, expected a string"),
        ("HyperParameters", "x", "HyperParameters is 'x', expected an object"),
        ("OutputDataConfig", None, "OutputDataConfig is missing"),
        ("InputDataConfig", [3], "expected a list of objects"),
        ("AlgorithmSpecification", {"AlgorithmName": "a"}, "TrainingImage is missing"),
        ("StoppingCondition", {"MaxRuntimeInSeconds": "1"}, "expected a whole number"),
        (
            "AlgorithmSpecification",
            {"TrainingImage": "x", "TrainingInputMode": ["File"]},
            "TrainingInputMode is ['File'], expected a string",
        ),
        (
            "AlgorithmSpecification",
            {"TrainingImage": "x", "MetricDefinitions": [{"Name": "m", "Regex": "("}]},
            "the Regex of metric m is malformed",
        ),
    ],
)
def test_a_training_request_that_cannot_be_run_is_named(
    bench: Any, member: str, value: Any, reason: str
) -> None:
    (found,) = reasons(bench, bench.training("train", request={member: value}))
    assert reason in found


def test_sparks_launcher_is_refused_with_what_to_do(bench: Any) -> None:
    step = bench.processing("etl")
    entrypoint = ["smspark-submit", "/opt/ml/processing/input/code/etl.py"]
    step["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = entrypoint
    (found,) = reasons(bench, step)
    assert found.startswith("etl: smspark-submit is in AWS's Spark images only; let a command do")
    assert "--command etl=" in found


def test_an_accelerator_that_is_not_here_is_named(bench: Any) -> None:
    (found,) = reasons(bench, with_resources(bench, InstanceType="ml.trn1.2xlarge"))
    assert found == (
        "train: InstanceType ml.trn1.2xlarge needs Trainium or Inferentia, which is not here"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ProcessingInputs": [{"InputName": "x", "DatasetDefinition": {}}]}, "needs AWS"),
        ({"AppSpecification": {"ImageUri": "x"}}, "ContainerEntrypoint is missing"),
        (
            {
                "ProcessingInputs": [
                    {"InputName": "x", "S3Input": {"S3Uri": "s3://b/x", "LocalPath": "in"}}
                ]
            },
            "must be absolute",
        ),
    ],
)
def test_a_processing_request_that_cannot_be_run_is_named(
    bench: Any, change: Any, reason: str
) -> None:
    (found,) = reasons(bench, bench.processing("job", request=change))
    assert reason in found


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ({"Get": "Parameters.Nope"}, "Get 'Parameters.Nope' names nothing"),
        ({"Get": "Steps.train.TrainingJobNam"}, "a local Training step has AlgorithmSpecification"),
        ({"Get": "Steps.train.InputDataConfig['x'].ChannelName"}, "has no 'x'"),
        ({"Get": "Steps.make.ProcessingOutputConfig.Outputs['y'].OutputName"}, "has no 'y'"),
        ({"Get": "Steps.stop.Anything"}, "a local Fail step has"),
        ({"Std:Upper": "x"}, "function Std:Upper is unknown"),
        (
            {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.make.PropertyFiles.No"}, "Path": "a"}},
            "make declares the property files ['Report']",
        ),
        (
            {
                "Std:JsonGet": {
                    "PropertyFile": {"Get": "Steps.make.PropertyFiles.Report"},
                    "Path": "a[",
                }
            },
            "path 'a[' is malformed",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(bench: Any, argument: Any, reason: str) -> None:
    report = {"PropertyFileName": "Report", "OutputName": "x", "FilePath": "r.json"}
    found = reasons(
        bench,
        bench.training("train"),
        bench.processing("make", outputs=["x"], PropertyFiles=[report]),
        bench.condition("decide", bench.equals(1, 2), then=[bench.fail("stop")]),
        bench.processing("read", arguments=[argument]),
    )
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.slow
def test_references_that_lead_somewhere_pass(bench: Any) -> None:
    good = [
        {"Get": "Steps.train.TrainingJobName"},
        {"Get": "Steps.train.FinalMetricDataList['loss'].Value"},
        {"Get": "Steps.train.ResourceConfig.InstanceType"},
        {"Get": "Steps.train.StoppingCondition.MaxRuntimeInSeconds"},
    ]
    result = bench.run(
        bench.training("train", "print('loss=0.5')", metrics={"loss": "loss=([0-9.]+)"}),
        bench.processing(
            "read",
            "import sys; print(sys.argv[1:])",
            arguments=[{"Std:Join": {"On": "", "Values": [item]}} for item in good],
        ),
    )
    assert result.steps["read"].log.read_text() == (
        f"['{result.steps['train'].job_name}', '0.5', 'ml.m5.xlarge', '900']\n"
    )


def test_steps_that_wait_for_each_other_are_refused(bench: Any) -> None:
    (found,) = reasons(
        bench,
        bench.processing("a", DependsOn=["c"]),
        bench.processing("b", DependsOn=["a"]),
        bench.processing("c", DependsOn=["b"]),
    )
    assert found == "the steps a -> b -> c -> a wait for each other"


def test_a_condition_that_waits_for_a_step_on_its_own_branch_is_refused(bench: Any) -> None:
    inner = bench.processing("inner")
    condition = bench.equals({"Get": "Steps.inner.ProcessingJobName"}, "x")
    (found,) = reasons(bench, bench.condition("decide", condition, then=[inner]))
    assert "wait for each other" in found


def test_names_must_be_unique_and_plain(bench: Any) -> None:
    found = reasons(
        bench,
        bench.processing("twice"),
        bench.condition("decide", bench.equals(1, 1), then=[bench.processing("twice")]),
        bench.processing("a/b"),
    )
    assert found == [
        "twice: 2 steps have this name, a name must be unique",
        "'a/b': a step's name has 1 to 64 letters, digits, '-' and '_'",
    ]


def test_an_unknown_image_is_refused_with_the_remedy(bench: Any) -> None:
    images = ImageSources(root=bench.home, patterns=(("*/processing:*", "here"),))
    (found,) = reasons(bench, bench.training("train"), bench.processing("p"), images=images)
    assert found == (
        "train: image registry.example/training:1 is unknown: no pattern matches and "
        f"{bench.home} has no folder training; name a Python environment for it, "
        "for example --image '*training*=here'"
    )


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("ModelPackageName", "p", "ModelPackageName (a package without versions) is not supported"),
        ("ModelPackageGroupName", "../g", "ModelPackageGroupName is '../g'"),
        ("ModelApprovalStatus", "Yes", "ModelApprovalStatus is 'Yes', allowed are Approved"),
        ("InferenceSpecification", {"Containers": [{"ModelDataUrl": 1}]}, "expected a string"),
    ],
)
def test_a_package_that_cannot_be_registered_is_named(
    bench: Any, member: str, value: Any, reason: str
) -> None:
    step = bench.register("register", "g", "s3://bucket/m")
    step["Arguments"][member] = value
    (found,) = reasons(bench, step)
    assert reason in found


@pytest.mark.parametrize("program", ["/bin/train.py", "../train.py", "-c", "a b.py", "x//y.py"])
def test_a_program_that_is_no_path_in_the_archive_is_refused(bench: Any, program: str) -> None:
    step = bench.training("train")
    step["Arguments"]["HyperParameters"]["sagemaker_program"] = json.dumps(program)
    (found,) = reasons(bench, step)
    assert f"sagemaker_program is {program!r}" in found


def definition_with(**step: Any) -> str:
    return json.dumps({"Steps": [{"Name": "a", "Type": "Fail", **step}]})


RETRY = {"ExceptionType": ["x"], "MaxAttempts": -1}
CACHE = {"Enabled": True, "ExpireAfter": "soon"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "the definition is not JSON"),
        ("[]", "the definition is a JSON array, expected an object"),
        ('{"Version": "2020-12-01", "Steps": []}', "there is nothing to run"),
        ('{"Version": "1", "Steps": {}}', "Version is '1', expected '2020-12-01'"),
        ('{"Version": "1", "Steps": {}}', "Steps is a JSON object, expected an array"),
        ('{"Steps": [{"Type": "Fail"}]}', "a step has no Name"),
        ('{"Steps": [{"Name": "a"}]}', "a: a step needs a Type"),
        ('{"Parameters": [{"Name": "p", "Type": "Date"}]}', "parameter p: Type is 'Date'"),
        ('{"x": NaN}', "NaN is not a JSON number"),
        (definition_with(DependsOn=[{"Step": "b", "Trigger": "Odd"}]), "Trigger is 'Odd'"),
        (definition_with(CacheConfig=CACHE), "'soon' is not an ISO 8601 duration"),
        (definition_with(RetryPolicies=[RETRY]), "MaxAttempts of a retry policy is -1"),
        (definition_with(PropertyFiles=[{}]), "a property file needs PropertyFileName"),
    ],
)
def test_a_malformed_definition_says_where(text: str, reason: str) -> None:
    _, faults = read_definition(text)
    assert any(reason in fault for fault in faults), faults


def test_a_pipelines_name_must_be_fit_for_a_folder(bench: Any) -> None:
    with pytest.raises(ExecutionError, match=r"the pipeline's name is '\.\./x'"):
        bench.run(bench.fail("stop"), pipeline_name="../x")


def test_metadata_and_experiment_settings_are_ignored(bench: Any, tmp_path: Path) -> None:
    definition = json.loads(bench.definition(bench.fail("stop")))
    extra = {
        "Metadata": {"a": 1},
        "PipelineExperimentConfig": {"ExperimentName": "e"},
        "MlflowConfig": None,
    }
    parsed, faults = read_definition(json.dumps({**definition, **extra}))
    assert faults == []
    assert [step.name for step in parsed.steps] == ["stop"]


@pytest.mark.parametrize(("value", "refused"), [("true", True), ("false", False)])
def test_training_compiler_is_refused_where_it_is_switched_on(
    bench: Any, value: str, refused: bool
) -> None:
    step = bench.training("train")
    step["Arguments"]["HyperParameters"]["sagemaker_training_compiler_enabled"] = value
    # So that nothing starts either way.
    step["Arguments"]["ResourceConfig"]["InstanceType"] = "ml.trn1.2xlarge"
    said = [reason for reason in reasons(bench, step) if "Training Compiler" in reason]
    assert said == (
        [
            "train: sagemaker_training_compiler_enabled needs SageMaker Training Compiler, which "
            "is in AWS's images only; run it on SageMaker"
        ]
        if refused
        else []
    )


def test_unknown_members_of_requests_are_named_with_their_paths(bench: Any) -> None:
    train = bench.training("train", channels={"data": "s3://bucket/code"})
    train["Arguments"]["InputDataConfg"] = []
    train["Arguments"]["InputDataConfig"][0]["DataSource"]["S3DataSource"]["S3Typ"] = "x"
    register = bench.register("register", "g", {"Get": "Steps.train.TrainingJobName"})
    register["Arguments"]["InferenceSpecification"]["Containers"][0]["Environment"] = {"any": "x"}
    register["Arguments"]["Zoo"] = {}
    found = reasons(bench, train, register)
    assert [reason.split(": ")[:2] for reason in found] == [
        ["train", "InputDataConfig[0].DataSource.S3DataSource.S3Typ"],
        ["train", "InputDataConfg"],
        ["register", "Zoo"],
    ]
    assert found[1].endswith("did you mean InputDataConfig?")


def test_a_property_file_in_an_output_that_its_step_does_not_have_is_refused(bench: Any) -> None:
    file = {"PropertyFileName": "Report", "OutputName": "reprt", "FilePath": "r.json"}
    step = bench.processing("make", outputs=["report", "model"], PropertyFiles=[file])
    (found,) = reasons(bench, step)
    assert found.startswith("make: the property file Report ")
    assert "'reprt'" in found
    assert found.endswith("report, model")


def test_a_parameter_without_a_value_hides_no_other_refusal_and_makes_none(bench: Any) -> None:
    def value(name: str) -> dict[str, str]:
        return {"Get": f"Parameters.{name}"}

    train = bench.training(
        "train",
        hyperparameters={"rate": {"Std:Join": {"On": "", "Values": [value("Rate")]}}},
        channels={"data": value("Data")},
    )
    train["Arguments"]["AlgorithmSpecification"]["TrainingImage"] = value("Image")
    train["Arguments"]["AlgorithmSpecification"]["TrainingInputMode"] = value("Mode")
    train["Arguments"]["ResourceConfig"]["InstanceCount"] = value("Count")
    types = {"Rate": "Float", "Data": "String", "Image": "String", "Mode": "String"}
    names = [{"Name": name, "Type": kind} for name, kind in {**types, "Count": "Integer"}.items()]
    found = reasons(
        bench,
        train,
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


def test_a_notebook_job_is_refused_with_a_command_that_runs_notebooks(bench: Any) -> None:
    step = bench.training("notebook")
    step["Arguments"]["AlgorithmSpecification"]["ContainerEntrypoint"] = [
        "amazon_sagemaker_scheduler"
    ]
    (found,) = reasons(bench, step)
    assert found.startswith("notebook: amazon_sagemaker_scheduler is in ")
    assert "--command notebook='papermill" in found


def test_a_program_that_is_not_here_is_refused_before_the_job(bench: Any) -> None:
    step = bench.processing("etl")
    step["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = ["no-such-program", "x"]
    (found,) = reasons(bench, step)
    assert found.startswith("etl: its program no-such-program is ")
