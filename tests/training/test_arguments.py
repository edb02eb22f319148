"""The hyperparameters of a training job, as text from SageMaker's toolkit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from compilegate.job import Baseline, InputError
from training.arguments import JobArguments, read_arguments
from training.hyperparameters import Hyperparameters

ENVIRONMENT = {
    "SM_CHANNEL_PREPARED": "/in/prepared",
    "SM_MODEL_DIR": "/out/model",
    "SM_OUTPUT_DATA_DIR": "/out/data",
    "TRAINING_JOB_NAME": "job-3",
}


def read(environment: dict[str, str] = ENVIRONMENT, **options: Any) -> JobArguments:
    told = {"arm": "compiler-only", "seed": 3, **options}
    return read_arguments(
        [part for name, value in told.items() for part in (f"--{name}", str(value))], environment
    )


def test_text_becomes_a_typed_config() -> None:
    options = {"batch_size": "48", "learning_rate": "1.5e-3", "precision": "bf16"}
    job = read(**options, compiler="inductor", regional="True")  # as the toolkit writes a truth
    recipe = Hyperparameters(batch_size=48, learning_rate=0.0015, precision="bf16")
    config = job.config
    assert job.hyperparameters == recipe
    assert config.recipe == dataclasses.asdict(recipe)
    assert config.options == {
        "compile_mode": "default",
        "dynamic_shapes": None,
        "regional": True,
        "fallback_random": True,
    }
    assert (config.job, config.arm, config.seed) == ("job-3", "compiler-only", 3)
    assert (config.model, config.output) == (Path("/out/model"), Path("/out/data"))
    assert (config.on_failure, config.parity_steps, config.baseline) == ("stop", 4, None)
    assert (job.processes, job.checkpoints) == (None, None)
    assert read({**ENVIRONMENT, "TRAINING_JOB_NAME": ""}).config.job == "compiler-only-seed-3"


def test_probes_and_failures_are_no_part_of_the_recipe() -> None:
    flags = {"parity_steps": 0, "speed_probe_seconds": 2.5, "on_failure": "record"}
    baseline = {"compiler": "eager", "batch_size": 16, "precision": "bf16", "padding": "max"}
    config = read(**flags, **{f"baseline_{name}": value for name, value in baseline.items()}).config
    assert config.baseline == Baseline(**baseline)
    assert {name: getattr(config, name) for name in flags} == flags
    assert config.config_digest == read().config.config_digest


def test_torchrun_and_checkpoints_come_from_their_names() -> None:
    assert read(distribution="torchrun", processes=2).processes == 2
    places = {"COMPILEGATE_CHECKPOINTS": "/kept", "COMPILEGATE_CHECKPOINT_SECONDS": "20"}
    job = read({**ENVIRONMENT, **places})
    assert (job.checkpoints, job.checkpoint_seconds) == (Path("/kept"), 20.0)


def test_a_scaled_learning_rate_is_recorded_with_what_it_follows_from() -> None:
    scaling = {"learning_rate_rule": "linear", "base_learning_rate": 1e-3}
    recipe = read(**scaling, learning_rate=2e-3, base_global_batch_size=32).config.recipe
    expected = {**scaling, "base_global_batch_size": 32, "learning_rate_factor": 2.0}
    assert recipe.items() >= expected.items()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("batch_size", "0", "--batch_size is 0, expected 1 or more"),
        ("learning_rate", "inf", "--learning_rate is inf, expected 1e-09 or more and finite"),
        ("dropout", "nan", "--dropout is nan, expected 0 or more and below 1"),
        ("hidden_size", "65", "--hidden_size is 65, expected a multiple of --attention_heads (2)"),
        ("epochs", "two", "argument --epochs: invalid int value: 'two'"),
        ("precision", "fp8", "argument --precision: invalid choice: 'fp8'"),
        ("padding", "short", "argument --padding: invalid choice: 'short'"),
        ("compiler", "xla9", "argument --compiler: invalid choice: 'xla9'"),
        ("regional", "yes", "--regional: 'yes' is neither true nor false"),
        ("seed", "-1", "argument --seed: -1 is not from 0 to 2147483647"),
        ("speed_probe_seconds", "nan", "argument --speed_probe_seconds: nan is not from 0 to 3600"),
        ("learning_rat", "1", "unrecognized arguments: --learning_rat 1"),
    ],
)
def test_a_value_that_is_not_allowed_is_named(option: str, value: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**{"compiler": "inductor", option: value})
    assert message in str(caught.value)


def test_a_missing_folder_variable_is_named() -> None:
    with pytest.raises(InputError, match="SM_MODEL_DIR must name a folder"):
        read({**ENVIRONMENT, "SM_MODEL_DIR": ""})
