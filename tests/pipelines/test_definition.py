"""A workload becomes the JSON of a SageMaker pipeline: the same bytes, and steps that fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.writing import compact
from compilegate.job.launch.script_arguments import job_text, script_environment
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import (
    placeholders,
)
from compilegate.pipelines.steps.processing import MOST_INPUTS
from compilegate.workload import Workload
from compilegate.workload.settling import LARGEST_EXPERIMENT
from tests.pipelines.definitions import (
    HERE,
    LOCAL,
    requests_of,
    sources,
    steps_of,
    workload,
)

NEURON = {
    "compiler": "neuron",
    "batch_size": 8,
    "learning_rate": 1e-3,
    "instance_type": "ml.trn1.2xlarge",
}


def check_golden(name: str, text: str) -> None:
    golden = HERE / "golden" / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "data"), [("topics", "topics"), ("diffusion", "mine"), ("trees", "mine")]
)
def test_the_definition_is_the_golden_one(name: str, data: str) -> None:
    text = compile_definition(workload(name), LOCAL, sources(data=data))
    check_golden(name, text)
    assert json.loads(compact(text)) == json.loads(text)
    assert len(compact(text)) < 0.7 * len(text)


@pytest.mark.slow
def test_another_process_without_aws_or_network_gives_the_same_bytes(tmp_path: Path) -> None:
    """Hash seed, region and credentials do not reach the bytes."""
    program = (
        "import sys; from tests.pipelines.definitions import compiled, workload;"
        "sys.stdout.write(compiled(workload()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": str(HERE.parents[1]),
            "PYTHONHASHSEED": "1",
            "AWS_DEFAULT_REGION": "eu-west-3",
            # Any call would have to go through here, and nobody listens.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == (HERE / "golden" / "topics.json").read_text(encoding="utf-8"), done.stderr


def test_no_placeholder_is_part_of_another() -> None:
    values = list(placeholders(("training", "training-compiler", "gate"), subnets=3).values())
    assert not [(a, b) for a in values for b in values if a != b and a in b]


@pytest.mark.parametrize(("name", "arms"), [("topics", ["compiled"]), ("trees", [])])
def test_one_condition_for_each_arm_and_one_for_none(name: str, arms: list[str]) -> None:
    """Side by side: the service takes no condition on the branch of another."""
    steps = steps_of(name)
    arms = [*arms, "baseline"]
    conditions = {
        each: step["Arguments"] for each, step in steps.items() if step["Type"] == "Condition"
    }
    assert list(conditions) == [*(f"Decide-{arm}" for arm in arms), "Decide-none"]
    for arm in arms:
        names = [step["Name"] for step in conditions[f"Decide-{arm}"]["IfSteps"]]
        assert names == [f"Package-{arm}", f"Register-{arm}", f"Keep-{arm}"]
        assert steps[f"Keep-{arm}"]["DependsOn"] == [f"Register-{arm}"]
    (none,) = (each["Condition"] for each in conditions["Decide-none"]["Conditions"])
    assert none["Values"] == [*arms, "nothing-new"], "where nothing is new, nothing fails"
    assert [step["Type"] for step in conditions["Decide-none"]["IfSteps"]] == ["Fail"]


def test_what_is_registered_is_decided_anew_in_every_execution() -> None:
    steps = steps_of("trees")
    cached = {name for name, step in steps.items() if "CacheConfig" in step}
    assert {*steps} - cached == {
        *("Gate", "Decide-baseline", "Register-baseline", "Keep-baseline", "Decide-none"),
        "Fail-no-valid-arm",
    }
    always = {"expression": "rate(7 days)", "retrain": "always"}
    scheduled = steps_of(workload("trees", schedule=always))
    trained = {name for name, step in steps.items() if step["Type"] == "Training"}
    assert {name for name, step in scheduled.items() if "CacheConfig" in step} == cached - trained


def test_the_registered_model_is_read_where_the_next_one_is_kept() -> None:
    requests = requests_of("trees")
    (read,) = (
        each["S3Input"]["S3Uri"]
        for each in requests["Gate"]["ProcessingInputs"]
        if each["InputName"] == "registered"
    )
    kept, note = (
        requests[name]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
        for name in ("Keep-baseline", "Open-registered")
    )
    assert (kept, note) == (f"{read}/evidence", f"{read}/note")
    assert steps_of("trees")["Gate"]["DependsOn"] == ["Open-registered"]


def test_the_model_of_the_first_declared_seed_is_the_one_that_is_registered() -> None:
    inputs = requests_of(workload(seeds=[8, 7]))["Package-compiled"]["ProcessingInputs"]
    assert [each["S3Input"]["S3Uri"] for each in inputs if each["InputName"] == "model"] == [
        {"Get": "Steps.Train-compiled-8.ModelArtifacts.S3ModelArtifacts"}
    ]


def test_more_evidence_than_one_job_can_take_is_gathered_first() -> None:
    steps = steps_of(workload(seeds=list(range(11))))
    gathering = [name for name in steps if name.startswith("Gather-")]
    assert gathering == ["Gather-1", "Gather-2", "Gather-3"]
    inputs = {
        name: [each["InputName"] for each in steps[name]["Arguments"]["ProcessingInputs"]]
        for name in [*gathering, "Gate"]
    }
    assert [len(inputs[name]) for name in gathering] == [10, 10, 5]
    evidence = [f"evidence-{number}" for number in (1, 2, 3)]
    assert inputs["Gate"] == ["code", "experiment", "registered", *evidence]


@pytest.mark.slow
def test_the_largest_experiment_fits_the_inputs_of_its_jobs() -> None:
    """The compiler counts the inputs; with seven pieces of evidence nothing is gathered."""
    for seeds, inputs in ((LARGEST_EXPERIMENT // 2, MOST_INPUTS), (3, MOST_INPUTS - 1)):
        requests = requests_of(workload().model_copy(update={"seeds": [*range(seeds)]}))
        assert len(requests["Gate"]["ProcessingInputs"]) == inputs
        assert ("Gather-1" in requests) == (seeds > 3)


BASELINE = {"compiler": "eager", "batch_size": "8", "precision": "fp32"}
OF_BASELINE = {f"baseline_{name}": value for name, value in BASELINE.items()}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {**OF_BASELINE, "on_failure": "record"}),
        ({"gate__parity": {"steps": 9}}, {"parity_steps": "9"}),
        ({"gate": {"speed_probe_seconds": 0.0}}, {"speed_probe_seconds": "0"}),
        ({"gate": {"speed_probe_seconds": 2.5}}, {"speed_probe_seconds": "2.5"}),
        ({"arms__compiled": {"padding": "buckets"}}, {"baseline_padding": "max"}),
    ],
)
def test_only_a_candidate_is_given_what_it_compares_with(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    """A baseline has nothing to compare with: other settings shall not train it again."""
    requests = requests_of(workload(**changes))
    baseline, candidate = (
        requests[f"Train-{arm}-7"]["HyperParameters"] for arm in ("baseline", "compiled")
    )
    assert expected.items() <= candidate.items()
    assert expected.keys() & baseline.keys() <= {"on_failure"}
    assert baseline["on_failure"] == "stop"
    assert {name: baseline[name] for name in BASELINE} == BASELINE


def test_an_arm_s_compiler_settings_processes_and_scaled_rate_reach_its_job() -> None:
    wide = {
        "compiler": "inductor",
        "batch_size": 8,
        "scale_learning_rate": "linear",
        "mode": "max-autotune",
        "dynamic": True,
        "distribution": "torchrun",
        "processes": 4,
        "instance_count": 2,
    }
    declared = workload(arms__wide=wide)
    request = requests_of(declared)["Train-wide-7"]
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
    assert expected.items() <= request["HyperParameters"].items()
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert request["EnableInterContainerTrafficEncryption"] is True


def test_an_arm_has_the_instance_and_image_of_its_compiler_or_its_own() -> None:
    stacks = {"batch_size": 12, "learning_rate": 1.5e-3, "compiler": "training-compiler"}
    declared = workload(
        arms__baseline={"image": "xgboost"},
        arms__compiled={"instance_type": "ml.p4d.24xlarge"},
        arms__other=stacks,
    )
    deployment = replace(LOCAL, images={**LOCAL.images, "training-compiler": "registry/own:1"})
    requests = requests_of(declared, deployment)
    folders = {"baseline": "xgboost", "compiled": "training", "other": "training-compiler"}
    for arm, folder in folders.items():
        request, image = requests[f"Train-{arm}-7"], deployment.images[folder]
        assert request["AlgorithmSpecification"]["TrainingImage"] == image
        assert request["Environment"]["COMPILEGATE_IMAGE"] == image
        (container,) = requests[f"Register-{arm}"]["InferenceSpecification"]["Containers"]
        assert container["Image"] == image
    parameter = {"Get": "Parameters.TrainingInstanceType"}
    for arm, instance_type in (("baseline", parameter), ("compiled", "ml.p4d.24xlarge")):
        request = requests[f"Train-{arm}-7"]
        assert request["ResourceConfig"]["InstanceType"] == instance_type
        # The cache looks at the environment, and not at the resources.
        assert request["Environment"]["COMPILEGATE_INSTANCE_TYPE"] == instance_type


# Neuron: one extraction of an arm's graphs, then the training jobs that use them.


def with_neuron(**changes: Any) -> Workload:
    return workload(arms={"compiled": {**NEURON, **changes}})


def test_graphs_are_extracted_once_and_both_seeds_wait_for_that() -> None:
    steps = steps_of(with_neuron(neuron={"extraction_steps": 12}))
    kept = {name: steps[name] for name in ("Extract-compiled", "Train-compiled-7")}
    check_golden("neuron", json.dumps(kept, indent=2) + "\n")
    waiting = [
        name for name, step in steps.items() if "Extract-compiled" in step.get("DependsOn", [])
    ]
    assert waiting == ["Train-compiled-7", "Train-compiled-8"]
    extraction, training = (step["Arguments"]["HyperParameters"] for step in kept.values())
    assert {name for name, value in extraction.items() if training.get(name) != value} == {
        *("max_steps", "on_failure", "parity_steps", "speed_probe_seconds"),
        *("sagemaker_program", "training_script"),
    }


def test_an_arm_without_extraction_still_has_a_cache() -> None:
    requests = requests_of(with_neuron(neuron={"precompile": False}))
    assert "Extract-compiled" not in requests
    assert requests["Train-compiled-7"]["Environment"]["NEURON_COMPILE_CACHE_URL"] == LOCAL.uri(
        "workloads", "topics", "checkpoints", "neuron-compile-cache", "compiled"
    )


def test_an_extraction_on_a_spot_machine_resumes_from_no_checkpoint() -> None:
    requests = requests_of(with_neuron(spot=True))
    extraction, training = requests["Extract-compiled"], requests["Train-compiled-7"]
    assert extraction["EnableManagedSpotTraining"] is True
    assert training.keys() - extraction.keys() == {"CheckpointConfig"}
    assert training["Environment"].keys() - extraction["Environment"].keys() == {
        "COMPILEGATE_CHECKPOINTS",
        "COMPILEGATE_CHECKPOINT_SECONDS",
    }


# A training script of one's own.


def job_of(request: dict[str, Any]) -> dict[str, Any]:
    job: dict[str, Any] = json.loads(job_text(request["Environment"]))
    return job


def test_a_script_s_job_has_probes_and_a_compile_cache_as_the_built_in_program_s_has() -> None:
    options = {"mode": "max-autotune", "fallback_random": False}
    gate = {"parity": {"steps": 3}, "speed_probe_seconds": 30}
    requests = requests_of(workload("diffusion", gate=gate, arms__compiled=options))
    assert job_of(requests["Train-compiled-8"]) == {
        "compiler": "inductor",
        "options": {"compile_mode": "max-autotune", "fallback_random": False},
        "batch_size": 12,
        "learning_rate": 0.0015,
        "precision": "bf16",
        "seed": 8,
        "parity_steps": 3,
        "speed_probe_seconds": 30,
        "compile_cache_megabytes": 1024,
        "baseline": {"compiler": "eager", "batch_size": 8, "precision": "fp32"},
    }
    assert job_of(requests["Train-baseline-7"]) == {
        "compiler": "eager",
        "batch_size": 8,
        "learning_rate": 0.001,
        "precision": "fp32",
        "seed": 7,
    }
    candidate, baseline = (requests[f"Train-{arm}"] for arm in ("compiled-8", "baseline-7"))
    assert candidate["Environment"]["COMPILEGATE_ON_FAILURE"] == "record"
    assert "COMPILEGATE_ON_FAILURE" not in baseline["Environment"]
    cache = candidate["Environment"]["COMPILEGATE_COMPILE_CACHE"]
    assert cache.startswith(candidate["CheckpointConfig"]["LocalPath"])
    assert "COMPILEGATE_COMPILE_CACHE" not in baseline["Environment"]


def test_a_job_s_settings_may_be_longer_than_one_variable_can_be() -> None:
    options = {f"option_number_{number}": "x" * 20 for number in range(30)}
    arm = {"compiler": "torch-compile", "backend": "inductor", "options": options}
    request = requests_of(workload("diffusion", arms__compiled=arm))["Train-compiled-8"]
    settings = job_of(request)
    assert json.loads(settings["options"]["backend_options"]) == options
    whole = script_environment({"steps": 3}, request["Environment"])
    assert json.loads(whole["COMPILEGATE_JOB"]) == {**settings, "recipe": {"steps": 3}}
    assert "COMPILEGATE_JOB_2" not in whole


PRINTED = {
    "evidence": "printed",
    "metrics": {"mse": "m ([0-9.]+)", "s": "s ([0-9.]+)", "loss": "l ([0-9.]+)"},
    "speed_metric": "s",
    "percent": ["mse", "loss"],
}
CAUGHT = {"program": PRINTED, "gate__metrics__mse": {"reported": True}}


@pytest.mark.parametrize("changes", [{"compile_cache": {"enabled": False}}, CAUGHT])
def test_a_job_has_no_compile_cache_where_none_is_wanted_or_nothing_would_use_it(
    changes: dict[str, Any],
) -> None:
    request = requests_of(workload("diffusion", **changes))["Train-compiled-8"]
    assert "compile_cache_megabytes" not in job_of(request)
    assert "COMPILEGATE_COMPILE_CACHE" not in request["Environment"]


def test_printed_metrics_are_caught_by_the_launcher_and_judged_by_the_same_gate() -> None:
    requests = requests_of(workload("diffusion", **CAUGHT))
    for name in ("Train-baseline-7", "Train-compiled-8"):
        environment = requests[name]["Environment"]
        assert {key: text for key, text in environment.items() if "PRINTED" in key} == {
            "COMPILEGATE_PRINTED_mse": "m ([0-9.]+)",
            "COMPILEGATE_PRINTED_samples_per_second": "s ([0-9.]+)",
        }
        assert environment["COMPILEGATE_PERCENT"] == "mse"  # of what is caught
    written = requests_of("diffusion")["Gate"]
    for part in ("ProcessingInputs", "AppSpecification"):
        assert requests["Gate"][part] == written[part]


def test_a_script_of_several_processes_is_started_by_torchrun() -> None:
    several = {"distribution": "torchrun", "processes": 4, "instance_count": 2, "spot": False}
    requests = requests_of(workload("diffusion", arms__compiled=several))
    request, alone = (requests[f"Train-{arm}-7"] for arm in ("compiled", "baseline"))
    launcher = '"compilegate/job/launch/own_script.py"'
    assert request["HyperParameters"]["sagemaker_program"] == launcher
    assert request["Environment"]["COMPILEGATE_SCRIPT"] == "train.py"
    assert request["Environment"]["COMPILEGATE_PROCESSES"] == "4"
    assert request["HyperParameters"].keys() == alone["HyperParameters"].keys()


def test_raw_data_goes_straight_to_the_script_where_nothing_prepares_it() -> None:
    requests = requests_of(workload("diffusion", program={"prepare": None}))
    (channel,) = requests["Train-baseline-7"]["InputDataConfig"]
    assert channel["ChannelName"] == "data"
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == {"Get": "Parameters.Data"}
    assert "Prepare" not in requests
