"""Programs of one's own in a definition: how their scripts are started, and what follows them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compilegate.job.launch.script_arguments import job_text, script_environment
from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Network, Sources, local_deployment
from compilegate.pipelines.requests.checks import InvalidRequestError
from compilegate.workload import Workload
from tests.workload.settled import workload_with

HERE = Path(__file__).parent
DEPLOYMENT = local_deployment({"training": "1111", "gate": "2222", "xgboost": "3333"})
SOURCES = Sources(
    training_archive=DEPLOYMENT.uri("source", "aaaa.tgz"),
    training_code=DEPLOYMENT.uri("source", "aaaa.zip"),
    gate_code=DEPLOYMENT.uri("source", "bbbb.zip"),
    experiment=DEPLOYMENT.uri("source", "dddd.json"),
    data=DEPLOYMENT.uri("data", "mine", "cccc"),
)


def declared(name: str, program: Mapping[str, Any] | None = None, **tables: Any) -> Workload:
    return workload_with(HERE / f"{name}.toml", program=dict(program or {}), **tables)


@cache
def compiled(name: str) -> str:
    return compile_definition(declared(name), DEPLOYMENT, SOURCES)


def steps(definition: str) -> dict[str, dict[str, Any]]:
    def below(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for step in found:
            yield step
            if step["Type"] == "Condition":
                yield from below(step["Arguments"]["IfSteps"])
                yield from below(step["Arguments"]["ElseSteps"])

    return {step["Name"]: step for step in below(json.loads(definition)["Steps"])}


@pytest.mark.parametrize("name", ["diffusion", "trees"])
def test_the_definition_is_the_golden_one(name: str) -> None:
    golden = HERE / "golden" / f"{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(compiled(name), encoding="utf-8")
    assert compiled(name) == golden.read_text(encoding="utf-8")


def test_the_script_gets_its_arm_as_arguments_and_its_own_hyperparameters_beside_them() -> None:
    request = steps(compiled("diffusion"))["Train-compiled-8"]["Arguments"]
    told = request["HyperParameters"]
    own = {name: value for name, value in told.items() if not name.startswith("sagemaker_")}
    assert own == {
        "compiler": "inductor",
        "batch_size": "12",
        "learning_rate": "0.0015",
        "precision": "bf16",
        "seed": "8",
        "steps": "100",
        "mirror": "true",
    }
    assert told["sagemaker_program"] == '"compilegate/job/launch/own_script.py"'
    assert request["Environment"]["COMPILEGATE_SCRIPT"] == "train.py"
    assert request["Environment"]["COMPILEGATE_ARM"] == "compiled"
    assert request["AlgorithmSpecification"]["MetricDefinitions"] == [
        {"Name": "train:loss", "Regex": "loss ([0-9.]+)"}
    ]
    assert "COMPILEGATE_CHECKPOINTS" in request["Environment"]  # of a spot arm


def job_of(step: dict[str, Any]) -> dict[str, Any]:
    return json.loads(step["Arguments"]["Environment"]["COMPILEGATE_JOB"])


def test_a_script_s_job_has_probes_and_a_compile_cache_as_the_built_in_program_s_has() -> None:
    options = {"mode": "max-autotune", "fallback_random": False}
    workload = declared("diffusion", gate__parity={"steps": 3}, arms__compiled=options)
    found = steps(compile_definition(workload, DEPLOYMENT, SOURCES))
    assert job_of(found["Train-compiled-8"]) == {
        "compiler": "inductor",
        "options": {"compile_mode": "max-autotune", "fallback_random": False},
        "batch_size": 12,
        "learning_rate": 0.0015,
        "precision": "bf16",
        "seed": 8,
        "parity_steps": 3,
        "compile_cache_megabytes": 1024,
        "baseline": {"compiler": "eager", "batch_size": 8, "precision": "fp32"},
    }
    assert job_of(found["Train-baseline-7"]) == {
        "compiler": "eager",
        "batch_size": 8,
        "learning_rate": 0.001,
        "precision": "fp32",
        "seed": 7,
    }
    request = found["Train-compiled-8"]["Arguments"]
    assert request["Environment"]["COMPILEGATE_COMPILE_CACHE"].startswith(
        request["CheckpointConfig"]["LocalPath"]
    )
    assert "COMPILEGATE_COMPILE_CACHE" not in found["Train-baseline-7"]["Arguments"]["Environment"]


def test_a_script_s_job_is_told_how_long_the_speed_probe_may_take_where_it_is_declared() -> None:
    found = steps(
        compile_definition(declared("diffusion", gate__speed_probe_seconds=30), DEPLOYMENT, SOURCES)
    )
    assert job_of(found["Train-compiled-8"])["speed_probe_seconds"] == 30
    assert "speed_probe_seconds" not in job_of(found["Train-baseline-7"])


def test_what_a_job_is_told_may_be_longer_than_one_variable_can_be() -> None:
    options = {f"option_number_{number}": "x" * 20 for number in range(30)}
    arm = {"compiler": "torch-compile", "backend": "inductor", "options": options}
    workload = declared("diffusion", arms__compiled=arm)
    step = steps(compile_definition(workload, DEPLOYMENT, SOURCES))["Train-compiled-8"]
    told = json.loads(job_text(step["Arguments"]["Environment"]))
    assert json.loads(told["options"]["backend_options"]) == options
    whole = script_environment({"steps": 3}, step["Arguments"]["Environment"])
    assert json.loads(whole["COMPILEGATE_JOB"]) == {**told, "recipe": {"steps": 3}}
    assert "COMPILEGATE_JOB_2" not in whole


def test_a_job_is_told_without_a_compile_cache_where_none_is_wanted_or_nothing_would_use_it() -> (
    None
):
    printed = {
        "evidence": "printed",
        "metrics": {"mse": "m ([0-9.]+)"},
    }
    reported = {"gate__metrics__mse": {"reported": True}}
    for workload in (
        declared("diffusion", compile_cache={"enabled": False}),
        declared("diffusion", printed, **reported),
    ):
        step = steps(compile_definition(workload, DEPLOYMENT, SOURCES))["Train-compiled-8"]
        assert "compile_cache_megabytes" not in job_of(step)
        assert "COMPILEGATE_COMPILE_CACHE" not in step["Arguments"]["Environment"]


def test_a_script_of_several_processes_is_started_by_torchrun_and_not_told_of_it() -> None:
    several = {"distribution": "torchrun", "processes": 4, "instance_count": 2, "spot": False}
    launched = declared("diffusion", arms__compiled=several)
    found = steps(compile_definition(launched, DEPLOYMENT, SOURCES))
    request, alone = (found[f"Train-{name}-7"]["Arguments"] for name in ("compiled", "baseline"))
    assert (
        request["HyperParameters"]["sagemaker_program"] == '"compilegate/job/launch/own_script.py"'
    )
    assert request["Environment"]["COMPILEGATE_SCRIPT"] == "train.py"
    assert request["Environment"]["COMPILEGATE_PROCESSES"] == "4"
    assert request["ResourceConfig"]["InstanceCount"] == 2
    assert request["HyperParameters"].keys() == alone["HyperParameters"].keys()


def test_the_failure_of_a_candidate_is_evidence_and_that_of_a_baseline_is_not() -> None:
    found = steps(compiled("diffusion"))
    candidate, baseline = (
        found[f"Train-{arm}-7"]["Arguments"]["Environment"] for arm in ("compiled", "baseline")
    )
    assert candidate["COMPILEGATE_ON_FAILURE"] == "record"
    assert baseline["COMPILEGATE_SCRIPT"] == "train.py"
    assert "COMPILEGATE_ON_FAILURE" not in baseline


def test_raw_data_goes_straight_to_the_script_where_nothing_prepares_it() -> None:
    found = steps(compile_definition(declared("diffusion", {"prepare": None}), DEPLOYMENT, SOURCES))
    (channel,) = found["Train-baseline-7"]["Arguments"]["InputDataConfig"]
    assert channel["ChannelName"] == "data"
    assert channel["DataSource"]["S3DataSource"]["S3Uri"] == {"Get": "Parameters.Data"}
    assert "Prepare" not in found


def test_printed_metrics_are_caught_by_the_launcher_and_judged_by_the_same_gate() -> None:
    workload = declared(
        "diffusion",
        {
            "evidence": "printed",
            "metrics": {"mse": "m ([0-9.]+)", "s": "s ([0-9.]+)", "loss": "l ([0-9.]+)"},
            "speed_metric": "s",
            "percent": ["mse", "loss"],
        },
        gate__metrics__mse={"reported": True},
    )
    found = steps(compile_definition(workload, DEPLOYMENT, SOURCES))
    for name in ("Train-baseline-7", "Train-compiled-8"):
        environment = found[name]["Arguments"]["Environment"]
        assert {key: text for key, text in environment.items() if "PRINTED" in key} == {
            "COMPILEGATE_PRINTED_mse": "m ([0-9.]+)",
            "COMPILEGATE_PRINTED_samples_per_second": "s ([0-9.]+)",
        }
        assert environment["COMPILEGATE_PERCENT"] == "mse"  # of what is caught
    written = steps(compiled("diffusion"))["Gate"]["Arguments"]
    for part in ("ProcessingInputs", "AppSpecification"):
        assert found["Gate"]["Arguments"][part] == written[part]


def test_the_registered_model_is_read_where_the_next_one_is_kept() -> None:
    found = steps(compiled("trees"))
    inputs = found["Gate"]["Arguments"]["ProcessingInputs"]
    (read,) = [each["S3Input"]["S3Uri"] for each in inputs if each["InputName"] == "registered"]
    kept, note = (
        found[name]["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
        for name in ("Keep-baseline", "Open-registered")
    )
    assert (kept, note) == (f"{read}/evidence", f"{read}/note")
    assert found["Keep-baseline"]["DependsOn"] == ["Register-baseline"]
    assert found["Gate"]["DependsOn"] == ["Open-registered"]


def test_what_is_registered_is_decided_anew_in_every_execution() -> None:
    found = steps(compiled("trees"))
    cached = {name for name, step in found.items() if "CacheConfig" in step}
    assert {*found} - cached == {
        *("Gate", "Decide-baseline", "Register-baseline", "Keep-baseline", "Decide-none"),
        "Fail-no-valid-arm",
    }


def test_where_nothing_is_new_nothing_is_registered_and_nothing_fails() -> None:
    *_, baseline, none = json.loads(compiled("trees"))["Steps"]
    assert [step["Name"] for step in baseline["Arguments"]["IfSteps"]] == [
        "Package-baseline",
        "Register-baseline",
        "Keep-baseline",
    ]
    assert baseline["Arguments"]["ElseSteps"] == []
    (named,) = (each["Condition"] for each in none["Arguments"]["Conditions"])
    assert named["Values"] == ["baseline", "nothing-new"]
    assert none["Arguments"]["ElseSteps"] == []
    assert [step["Type"] for step in none["Arguments"]["IfSteps"]] == ["Fail"]


def test_an_image_that_is_not_there_is_refused_by_name() -> None:
    without_gate = local_deployment({"training": "1111", "xgboost": "3333"})
    with pytest.raises(InvalidRequestError) as refused:
        compile_definition(declared("trees", {"image": "boost"}), without_gate, SOURCES)
    assert list(refused.value.problems) == [
        "program.image: the image 'boost' is not a folder in containers/ with a Dockerfile, "
        "allowed: training, xgboost",
        "Gate: the image 'gate' is not a folder in containers/ with a Dockerfile, allowed: "
        "training, xgboost",
    ]


def test_in_isolation_the_service_brings_the_program_too() -> None:
    isolated = type(DEPLOYMENT)(**{**vars(DEPLOYMENT), "network": Network(isolation=True)})
    request = steps(compile_definition(declared("diffusion"), isolated, SOURCES))
    channels = request["Train-baseline-7"]["Arguments"]["InputDataConfig"]
    assert [channel["ChannelName"] for channel in channels] == ["prepared", "code"]
