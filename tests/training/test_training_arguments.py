"""The hyperparameters of a training job, as text from SageMaker's toolkit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from compilegate.job.errors import InputError
from training.arguments import read_arguments
from training.hyperparameters import Hyperparameters

REQUIRED = ["--arm", "compiler-only", "--seed", "3"]
ENVIRONMENT = {
    "SM_CHANNEL_PREPARED": "/in/prepared",
    "SM_MODEL_DIR": "/out/model",
    "SM_OUTPUT_DATA_DIR": "/out/data",
    "TRAINING_JOB_NAME": "compiler-only-3",
}


def test_text_becomes_a_typed_recipe() -> None:
    options = ["--batch_size", "48", "--learning_rate", "1.5e-3", "--precision", "bf16"]
    job = read_arguments([*REQUIRED, *options, "--compiler", "inductor"], ENVIRONMENT)
    assert (job.name, job.arm, job.seed, job.compiler) == (
        "compiler-only-3",
        "compiler-only",
        3,
        "inductor",
    )
    assert job.hyperparameters == Hyperparameters(
        batch_size=48, learning_rate=0.0015, precision="bf16"
    )
    assert job.folders.model == Path("/out/model")


def test_how_the_compiler_is_set_is_no_part_of_the_recipe() -> None:
    job = read_arguments([*REQUIRED, "--compiler", "inductor", "--regional", "true"], ENVIRONMENT)
    assert job.declared_recipe() == dataclasses.asdict(Hyperparameters())
    assert job.compiler_settings == {
        "compile_mode": "default",
        "dynamic_shapes": None,
        "regional": True,
        "fallback_random": True,
    }
    declared = job.declared()
    assert declared["compiler"] == "inductor"
    assert declared.items() > {**job.declared_recipe(), **job.compiler_settings}.items()


def test_a_failure_stops_the_job_unless_told_otherwise() -> None:
    assert read_arguments(REQUIRED, ENVIRONMENT).on_failure == "stop"
    assert read_arguments([*REQUIRED, "--on_failure", "record"], ENVIRONMENT).on_failure == "record"


def test_the_parity_probe_is_short_unless_told_otherwise() -> None:
    assert read_arguments(REQUIRED, ENVIRONMENT).parity_steps == 4
    assert read_arguments([*REQUIRED, "--parity_steps", "0"], ENVIRONMENT).parity_steps == 0


def test_the_parity_probe_is_no_part_of_the_recipe() -> None:
    assert "parity_steps" not in read_arguments(REQUIRED, ENVIRONMENT).declared()


def test_the_speed_probe_is_told_what_to_compare_with_and_is_no_part_of_the_recipe() -> None:
    untold = read_arguments(REQUIRED, ENVIRONMENT)
    assert (untold.speed_probe_seconds, untold.baseline_compiler) == (None, None)
    flags = ["--baseline_compiler", "eager", "--baseline_batch_size", "16"]
    flags += [
        "--baseline_padding",
        "max",
        "--baseline_precision",
        "bf16",
        "--speed_probe_seconds",
        "2.5",
    ]
    told = read_arguments([*REQUIRED, *flags], ENVIRONMENT)
    assert (told.baseline_compiler, told.baseline_batch_size) == ("eager", 16)
    assert told.baseline_padding == "max"
    assert (told.baseline_precision, told.speed_probe_seconds) == ("bf16", 2.5)
    assert told.declared() == untold.declared()


def test_a_job_without_a_name_is_named_by_its_arm_and_seed() -> None:
    unnamed = {name: value for name, value in ENVIRONMENT.items() if name != "TRAINING_JOB_NAME"}
    assert read_arguments(REQUIRED, unnamed).name == "compiler-only-seed-3"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("batch_size", "0", "--batch_size is 0, expected 1 or more"),
        ("learning_rate", "0", "--learning_rate is 0.0, expected 1e-09 or more"),
        ("learning_rate", "inf", "--learning_rate is inf, expected 1e-09 or more and finite"),
        ("dropout", "nan", "--dropout is nan, expected 0 or more and below 1"),
        ("averaging", "1", "--averaging is 1.0, expected 0 or more and below 1"),
        ("hidden_size", "65", "--hidden_size is 65, expected a multiple of --attention_heads (2)"),
        ("epochs", "two", "argument --epochs: invalid int value: 'two'"),
        ("precision", "fp8", "argument --precision: invalid choice: 'fp8'"),
        ("compiler", "xla9", "argument --compiler: invalid choice: 'xla9'"),
        ("seed", "-1", "argument --seed: -1 is not from 0 to 2147483647"),
        ("parity_steps", "-1", "argument --parity_steps: -1 is not from 0 to 1000"),
        ("speed_probe_seconds", "-1", "argument --speed_probe_seconds: -1 is not from 0 to 3600"),
        ("speed_probe_seconds", "nan", "argument --speed_probe_seconds: nan is not from 0 to 3600"),
        ("learning_rat", "1", "unrecognized arguments: --learning_rat 1"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(option: str, value: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_arguments([*REQUIRED, f"--{option}", value], ENVIRONMENT)
    assert message in str(caught.value)


def test_a_missing_folder_variable_is_named() -> None:
    with pytest.raises(InputError, match="SM_MODEL_DIR must name a folder"):
        read_arguments(REQUIRED, {**ENVIRONMENT, "SM_MODEL_DIR": ""})


def test_a_scaled_learning_rate_is_recorded_with_what_it_follows_from() -> None:
    options = ["--learning_rate", "2e-3", "--learning_rate_rule", "linear"]
    base = ["--base_learning_rate", "1e-3", "--base_global_batch_size", "32"]
    declared = read_arguments([*REQUIRED, *options, *base], ENVIRONMENT).declared()
    assert declared["learning_rate_factor"] == 2.0
    assert (declared["base_learning_rate"], declared["base_global_batch_size"]) == (1e-3, 32)
    with pytest.raises(InputError, match="expected the rate that it was scaled from"):
        read_arguments([*REQUIRED, *options], ENVIRONMENT)


def test_the_compiler_s_settings_are_recorded_of_the_compiler_that_has_them() -> None:
    options = ["--regional", "True", "--fallback_random", "false"]  # as the toolkit writes them
    job = read_arguments([*REQUIRED, "--compiler", "inductor", *options], ENVIRONMENT)
    assert job.declared()["regional"] is True
    assert job.declared()["fallback_random"] is False
    assert "regional" not in read_arguments([*REQUIRED, *options], ENVIRONMENT).declared()


def test_checkpoints_of_several_processes_are_refused() -> None:
    with pytest.raises(InputError, match="checkpoints hold the state of one process"):
        read_arguments(
            [*REQUIRED, "--distribution", "torchrun", "--processes", "2"],
            {**ENVIRONMENT, "COMPILEGATE_CHECKPOINTS": "/checkpoints"},
        )


def test_padding_to_the_longest_needs_a_compiler_that_serves_any_shape() -> None:
    longest = [*REQUIRED, "--padding", "longest", "--compiler"]
    assert read_arguments([*longest, "eager"], ENVIRONMENT).hyperparameters.padding == "longest"
    read_arguments([*longest, "inductor"], ENVIRONMENT)
    with pytest.raises(InputError, match="inductor compiles every shape anew; expected max or b"):
        read_arguments([*longest, "inductor", "--dynamic_shapes", "false"], ENVIRONMENT)
    with pytest.raises(InputError, match="compiler xla compiles every shape anew"):
        read_arguments([*longest, "xla"], ENVIRONMENT)
    with pytest.raises(InputError, match="invalid choice: 'short'"):
        read_arguments([*REQUIRED, "--padding", "short"], ENVIRONMENT)
