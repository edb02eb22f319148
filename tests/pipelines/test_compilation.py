"""A workload becomes the JSON of a SageMaker pipeline: the same bytes, and valid requests."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.model import Definition
from compilegate.document.reading import read_definition
from compilegate.gate.settings import ParitySettings
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Sources, local_deployment
from compilegate.pipelines.requests.checks import InvalidRequestError, check_requests
from compilegate.pipelines.steps.processing import MOST_INPUTS
from compilegate.workload import Workload, read_workload
from compilegate.workload.settling import LARGEST_EXPERIMENT
from tests.workload.settled import workload_with

HERE = Path(__file__).parent
WORKLOAD = HERE / "topics.toml"
GOLDEN = HERE / "golden" / "topics.json"
DEPLOYMENT = local_deployment({"training": "1111", "gate": "2222"})
SOURCES = Sources(
    training_archive=DEPLOYMENT.uri("source", "aaaa.tgz"),
    training_code=DEPLOYMENT.uri("source", "aaaa.zip"),
    gate_code=DEPLOYMENT.uri("source", "bbbb.zip"),
    experiment=DEPLOYMENT.uri("source", "dddd.json"),
    data=DEPLOYMENT.uri("data", "topics", "cccc"),
)


def workload(**changes: Any) -> Workload:
    return dataclasses.replace(read_workload(WORKLOAD), **changes)


def definition_of(declared: Workload) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads(compiled(declared))
    return definition


_COMPILED: dict[str, str] = {}


def compiled(declared: Workload) -> str:
    """Most tests ask about the same workload."""
    key = repr(declared)
    if key not in _COMPILED:
        _COMPILED[key] = compile_definition(declared, DEPLOYMENT, SOURCES)
    return _COMPILED[key]


def read(document: dict[str, Any]) -> Definition:
    definition, faults = read_definition(json.dumps(document))
    assert faults == []
    return definition


def steps_of(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    def below(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for step in steps:
            yield step
            if step["Type"] == "Condition":
                yield from below(step["Arguments"]["IfSteps"])
                yield from below(step["Arguments"]["ElseSteps"])

    return {step["Name"]: step for step in below(definition["Steps"])}


@pytest.mark.slow
def test_the_definition_is_the_golden_one() -> None:
    """To accept a change: compile tests/pipelines/topics.toml with the names above."""
    found = compile_definition(workload(), DEPLOYMENT, SOURCES)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.slow
def test_other_processes_without_aws_or_network_settings_give_the_same_bytes(
    tmp_path: Path,
) -> None:
    """Hash seeds, regions, credentials and the user's SDK settings must not reach the bytes."""
    program = (
        "import sys, test_compilation as t;"
        "sys.stdout.write(t.compile_definition(t.workload(), t.DEPLOYMENT, t.SOURCES))"
    )
    for seed, region in (("1", "eu-west-3"), ("2", "us-east-1")):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
                "PYTHONHASHSEED": seed,
                "AWS_DEFAULT_REGION": region,
                "AWS_EC2_METADATA_DISABLED": "true",
                # Any call would have to go through here, and nobody listens.
                "HTTPS_PROXY": "http://127.0.0.1:9",
                "HTTP_PROXY": "http://127.0.0.1:9",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == GOLDEN.read_text(encoding="utf-8")


def test_compiling_makes_no_aws_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def note(self: object, operation: str, request: object) -> dict[str, object]:
        calls.append(operation)
        return {}

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", note)
    compile_definition(workload(), DEPLOYMENT, SOURCES)
    assert calls == []


def test_there_is_a_training_step_for_each_arm_and_seed_and_all_jobs_are_cached() -> None:
    steps = steps_of(definition_of(workload()))
    trained = [name for name, step in steps.items() if step["Type"] == "Training"]
    assert trained == [
        "Train-baseline-7",
        "Train-compiled-7",
        "Train-baseline-8",
        "Train-compiled-8",
    ]
    for name in ["Prepare", *trained]:
        assert steps[name]["CacheConfig"] == {"Enabled": True, "ExpireAfter": "P30D"}


def test_the_verdict_is_never_taken_from_the_cache() -> None:
    assert "CacheConfig" not in steps_of(definition_of(workload()))["Gate"]


def test_each_arm_is_asked_for_and_where_none_is_named_the_execution_fails() -> None:
    """Side by side: the service takes no condition on the branch of another."""
    decided = {
        "Std:JsonGet": {
            "PropertyFile": {"Get": "Steps.Gate.PropertyFiles.Verdict"},
            "Path": "decision.registers",
        }
    }
    *_, compiled_arm, baseline, none = definition_of(workload())["Steps"]
    for step, arm in ((compiled_arm, "compiled"), (baseline, "baseline")):
        package, registration, keep = step["Arguments"]["IfSteps"]
        assert (package["Name"], package["Type"]) == (f"Package-{arm}", "Processing")
        assert step["Name"] == f"Decide-{arm}"
        assert step["Arguments"]["Conditions"] == [
            {"Type": "Equals", "LeftValue": decided, "RightValue": arm}
        ]
        assert (registration["Name"], registration["Type"]) == (f"Register-{arm}", "RegisterModel")
        assert (keep["Name"], keep["DependsOn"]) == (f"Keep-{arm}", [f"Register-{arm}"])
        assert step["Arguments"]["ElseSteps"] == []
    named = ["compiled", "baseline", "nothing-new"]
    assert none["Arguments"]["Conditions"] == [
        {"Type": "Not", "Condition": {"Type": "In", "QueryValue": decided, "Values": named}}
    ]
    assert [step["Type"] for step in none["Arguments"]["IfSteps"]] == ["Fail"]
    assert none["Arguments"]["ElseSteps"] == []


def test_a_condition_on_the_branch_of_another_is_refused() -> None:
    definition = json.loads(GOLDEN.read_text(encoding="utf-8"))
    *steps, inner, outer = definition["Steps"]
    outer["Arguments"]["IfSteps"] = [inner]
    with pytest.raises(InvalidRequestError) as caught:
        check_requests(read({**definition, "Steps": [*steps, outer]}))
    assert str(caught.value) == (
        "Decide-baseline: found on a branch of Decide-none, allowed: Condition steps side by side"
    )


def test_the_model_of_the_first_declared_seed_is_the_one_that_is_registered() -> None:
    steps = steps_of(definition_of(workload(seeds=(8, 7))))
    inputs = steps["Package-compiled"]["Arguments"]["ProcessingInputs"]
    assert [each["S3Input"]["S3Uri"] for each in inputs if each["InputName"] == "model"] == [
        {"Get": "Steps.Train-compiled-8.ModelArtifacts.S3ModelArtifacts"}
    ]
    specification = steps["Register-compiled"]["Arguments"]["InferenceSpecification"]
    assert "Steps.Package-compiled." in json.dumps(specification["Containers"])


def test_a_candidate_records_its_failure_and_the_baseline_stops() -> None:
    steps = steps_of(definition_of(workload()))
    assert steps["Train-compiled-7"]["Arguments"]["HyperParameters"]["on_failure"] == "record"
    assert steps["Train-baseline-7"]["Arguments"]["HyperParameters"]["on_failure"] == "stop"


def test_parity_steps_go_to_the_jobs_that_compile() -> None:
    """A baseline has nothing to compare: other steps shall not train it again."""
    gate = workload().gate.model_copy(update={"parity": ParitySettings(steps=9)})
    steps = steps_of(definition_of(workload(gate=gate)))
    told = {
        name: steps[name]["Arguments"]["HyperParameters"].get("parity_steps")
        for name in ("Train-baseline-7", "Train-compiled-7")
    }
    assert told == {"Train-baseline-7": None, "Train-compiled-7": "9"}


def test_a_candidate_is_told_what_to_time_its_step_against() -> None:
    """A baseline has nothing to compare with: another candidate shall not train it again."""
    hyperparameters = {
        name: step["Arguments"]["HyperParameters"]
        for name, step in steps_of(definition_of(workload())).items()
        if step["Type"] == "Training"
    }
    names = ("baseline_compiler", "baseline_batch_size", "baseline_precision")
    told = [hyperparameters["Train-compiled-7"].get(name) for name in names]
    baseline = hyperparameters["Train-baseline-7"]
    assert told == [baseline["compiler"], baseline["batch_size"], baseline["precision"]]
    assert not any(name.startswith("baseline_") for name in baseline)
    assert not any("speed_probe_seconds" in each for each in hyperparameters.values())


def test_a_candidate_is_told_how_the_baseline_pads_where_it_pads_otherwise() -> None:
    arms = dict(workload().arms)
    arms["compiled"] = arms["compiled"].model_copy(update={"padding": "buckets"})
    steps = steps_of(definition_of(workload(arms=arms)))
    assert steps["Train-compiled-7"]["Arguments"]["HyperParameters"]["baseline_padding"] == "max"


@pytest.mark.parametrize(("seconds", "told"), [(0.0, "0"), (2.5, "2.5"), (90.0, "90")])
def test_the_speed_probe_s_seconds_go_to_the_candidates_where_they_are_declared(
    seconds: float, told: str
) -> None:
    gate = workload().gate.model_copy(update={"speed_probe_seconds": seconds})
    steps = steps_of(definition_of(workload(gate=gate)))
    found = {
        name: steps[name]["Arguments"]["HyperParameters"].get("speed_probe_seconds")
        for name in ("Train-baseline-7", "Train-compiled-7")
    }
    assert found == {"Train-baseline-7": None, "Train-compiled-7": told}


def test_each_training_job_is_told_its_image_since_no_container_knows_its_own() -> None:
    step = steps_of(definition_of(workload()))["Train-compiled-7"]["Arguments"]
    image = step["AlgorithmSpecification"]["TrainingImage"]
    assert step["Environment"]["COMPILEGATE_IMAGE"] == image


def test_more_evidence_than_one_job_can_take_is_gathered_first() -> None:
    """The service allows ten inputs for a processing job."""
    steps = steps_of(definition_of(workload(seeds=tuple(range(11)))))
    gathering = [name for name in steps if name.startswith("Gather-")]
    assert gathering == ["Gather-1", "Gather-2", "Gather-3"]
    assert all(steps[name]["CacheConfig"]["Enabled"] for name in gathering)
    inputs = {name: steps[name]["Arguments"]["ProcessingInputs"] for name in [*gathering, "Gate"]}
    assert [len(inputs[name]) for name in gathering] == [10, 10, 5]
    assert [item["InputName"] for item in inputs["Gate"]] == [
        "code",
        "experiment",
        "registered",
        "evidence-1",
        "evidence-2",
        "evidence-3",
    ]


@pytest.mark.slow
def test_the_largest_experiment_fits_the_inputs_of_its_jobs() -> None:
    """check_requests counts the inputs; with seven pieces of evidence nothing is gathered."""
    largest = steps_of(definition_of(workload(seeds=tuple(range(LARGEST_EXPERIMENT // 2)))))
    assert len(largest["Gate"]["Arguments"]["ProcessingInputs"]) == MOST_INPUTS
    small = steps_of(definition_of(workload(seeds=tuple(range(3)))))
    assert len(small["Gate"]["Arguments"]["ProcessingInputs"]) == MOST_INPUTS - 1
    assert not any(name.startswith("Gather-") for name in small)


def test_processing_jobs_import_their_program_from_the_staged_zip() -> None:
    steps = steps_of(definition_of(workload()))
    for name, zipped in (("Prepare", "aaaa.zip"), ("Gate", "bbbb.zip")):
        request = steps[name]["Arguments"]
        code = request["ProcessingInputs"][0]["S3Input"]
        assert code["S3Uri"] == DEPLOYMENT.uri("source", zipped)
        assert request["Environment"]["PYTHONPATH"] == f"{code['LocalPath']}/{zipped}"


def test_the_instance_type_is_a_parameter_that_the_cache_can_see() -> None:
    step = steps_of(definition_of(workload()))["Train-baseline-7"]["Arguments"]
    parameter = {"Get": "Parameters.TrainingInstanceType"}
    assert step["ResourceConfig"]["InstanceType"] == parameter
    assert step["Environment"]["COMPILEGATE_INSTANCE_TYPE"] == parameter


def test_an_arm_may_have_an_instance_type_of_its_own() -> None:
    arms = dict(workload().arms)
    arms["compiled"] = arms["compiled"].model_copy(update={"instance_type": "ml.p4d.24xlarge"})
    steps = steps_of(definition_of(workload(arms=arms)))
    compiled = steps["Train-compiled-7"]["Arguments"]["ResourceConfig"]
    assert compiled["InstanceType"] == "ml.p4d.24xlarge"


def break_enumeration(request: dict[str, Any]) -> None:
    request["ResourceConfig"]["InstanceType"] = "ml.g5.xlarg"


def break_pattern(request: dict[str, Any]) -> None:
    request["RoleArn"] = "not an arn"


def break_length(request: dict[str, Any]) -> None:
    request["HyperParameters"]["arm"] = "x" * 2501


def break_size(request: dict[str, Any]) -> None:
    request["HyperParameters"] |= {f"more{number}": "1" for number in range(100)}


def break_key(request: dict[str, Any]) -> None:
    request["HyperParameters"]["x" * 257] = "1"


def break_when_filled_in(request: dict[str, Any]) -> None:
    job = {"Get": "Steps.Train-baseline-8.TrainingJobName"}
    request["Environment"]["JOBS"] = {"Std:Join": {"On": " ", "Values": [job] * 9}}


def break_required(request: dict[str, Any]) -> None:
    del request["OutputDataConfig"]


def break_type(request: dict[str, Any]) -> None:
    request["ResourceConfig"]["InstanceCount"] = "one"


def break_range(request: dict[str, Any]) -> None:
    request["StoppingCondition"]["MaxRuntimeInSeconds"] = 0


def break_unknown(request: dict[str, Any]) -> None:
    request["Fantasy"] = 1


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (break_enumeration, "InstanceType is 'ml.g5.xlarg', expected one of"),
        (break_enumeration, "values; did you mean 'ml.g5.xlarge'?"),
        (break_pattern, "RoleArn is 'not an arn', expected a string that matches"),
        (break_length, "HyperParameters.arm has 2501 characters, expected 2500 at most"),
        (break_size, "HyperParameters has 121 entries, expected 100 at most"),
        (break_key, "HyperParameters: the key has 257 characters, expected 256 at most"),
        (
            break_when_filled_in,
            "Environment.JOBS: up to 575 characters once it is filled in, allowed: 512 at most",
        ),
        (break_type, "ResourceConfig.InstanceCount is 'one', expected a value of type integer"),
        (break_range, "StoppingCondition.MaxRuntimeInSeconds is 0, expected 1 at least"),
        (break_required, "OutputDataConfig is missing"),
        (break_unknown, "Train-baseline-7.Fantasy: boto3 knows no such member"),
    ],
)
def test_a_request_that_the_service_would_refuse_is_named(break_it: Any, sentence: str) -> None:
    definition = json.loads(GOLDEN.read_text(encoding="utf-8"))
    break_it(definition["Steps"][1]["Arguments"])
    with pytest.raises(InvalidRequestError) as caught:
        check_requests(read(definition))
    assert str(caught.value).startswith("Train-baseline-7")
    assert sentence in str(caught.value)


def test_a_parameter_s_default_that_the_service_would_refuse_is_named_once() -> None:
    definition = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for parameter in definition["Parameters"]:
        if parameter["Name"] == "TrainingInstanceType":
            parameter["DefaultValue"] = "ml.g5.xlarg"
    with pytest.raises(InvalidRequestError) as caught:
        check_requests(read(definition))
    (problem,) = caught.value.problems
    assert problem.startswith("the parameter TrainingInstanceType is 'ml.g5.xlarg', expected ")


def test_an_arm_runs_in_its_compiler_s_image_or_in_the_one_it_names() -> None:
    deployment = local_deployment({"training": "1", "training-compiler": "3", "gate": "2"})
    declared = workload_with(
        WORKLOAD,
        arms__baseline={"image": "training-compiler"},
        arms__other={"compiler": "training-compiler", "batch_size": 12, "learning_rate": 1.5e-3},
    )
    text = compile_definition(declared, deployment, SOURCES)
    steps = steps_of(json.loads(text))
    for arm, folder in (
        ("baseline", "training-compiler"),
        ("compiled", "training"),
        ("other", "training-compiler"),
    ):
        request = steps[f"Train-{arm}-7"]["Arguments"]
        image = deployment.images[folder]
        assert request["AlgorithmSpecification"]["TrainingImage"] == image
        assert request["Environment"]["COMPILEGATE_IMAGE"] == image
        (container,) = steps[f"Register-{arm}"]["Arguments"]["InferenceSpecification"]["Containers"]
        assert container["Image"] == image


def test_an_image_that_is_not_there_is_refused_by_the_arm_s_name() -> None:
    declared = workload_with(WORKLOAD, arms__compiled={"image": "mine"})
    with pytest.raises(InvalidRequestError) as caught:
        compile_definition(declared, DEPLOYMENT, SOURCES)
    assert str(caught.value) == (
        "arms.compiled.image: the image 'mine' is not a folder in containers/ with a Dockerfile, "
        "allowed: gate, training"
    )


def test_an_arm_s_compiler_settings_processes_and_scaled_rate_reach_its_job(tmp_path: Path) -> None:
    text = WORKLOAD.read_text(encoding="utf-8") + (
        '\n[arms.wide]\ncompiler = "inductor"\nbatch_size = 8\nscale_learning_rate = "linear"\n'
        'mode = "max-autotune"\ndynamic = true\n'
        'distribution = "torchrun"\nprocesses = 4\ninstance_count = 2\n'
    )
    path = tmp_path / "topics.toml"
    path.write_text(text, encoding="utf-8")
    declared = read_workload(path)
    steps = steps_of(json.loads(compile_definition(declared, DEPLOYMENT, SOURCES)))
    request = steps["Train-wide-7"]["Arguments"]
    base = declared.arms["baseline"]
    expected = {
        "compile_mode": "max-autotune",
        "dynamic_shapes": "true",
        "distribution": "torchrun",
        "processes": "4",
        "learning_rate": repr(base.learning_rate * 64 / base.batch_size),
        "learning_rate_rule": "linear",
        "base_learning_rate": repr(base.learning_rate),
        "base_global_batch_size": str(base.batch_size),
    }
    assert {key: request["HyperParameters"].get(key) for key in expected} == expected
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert not expected.keys() & (
        steps["Train-baseline-7"]["Arguments"]["HyperParameters"].keys() - {"learning_rate"}
    )


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"Get": "Steps.Prepare.Nothing"}, "is not a property of a Processing step"),
        ({"Get": "Steps.Gate.PropertyFiles.Other"}, "is not a property of a Processing step"),
        (
            {"Get": "Steps.Train-baseline-8.ModelArtifacts.Nothing"},
            "is not a property of a Training step",
        ),
        ({"Get": "Steps.Absent.TrainingJobName"}, "Steps.Absent.TrainingJobName refers to no step"),
        ({"Get": "Steps.Decide-none.Nothing"}, "is not a property of a Condition step"),
    ],
)
def test_a_property_that_no_step_will_have_is_named(value: Any, sentence: str) -> None:
    definition = json.loads(GOLDEN.read_text(encoding="utf-8"))
    definition["Steps"][1]["Arguments"]["Environment"]["VALUE"] = value
    with pytest.raises(InvalidRequestError) as caught:
        check_requests(read(definition))
    (problem,) = caught.value.problems
    assert problem.startswith("Train-baseline-7: Steps.")
    assert sentence in problem


def test_a_dependency_on_no_step_and_a_malformed_condition_are_named() -> None:
    definition = json.loads(GOLDEN.read_text(encoding="utf-8"))
    definition["Steps"][1]["DependsOn"] = ["Absent"]
    definition["Steps"][-1]["Arguments"]["Conditions"][0]["Type"] = "Equal"
    with pytest.raises(InvalidRequestError) as caught:
        check_requests(read(definition))
    waits, condition = caught.value.problems
    assert waits == "Train-baseline-7: depends on Absent, which is not a step"
    assert condition.startswith("Decide-none: condition type 'Equal' is unknown, expected one of ")
