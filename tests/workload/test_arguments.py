"""`[program.arguments]`: a script's own names and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.job.launch.script_arguments import (
    hyperparameters,
    job_text,
    recipe_by_toolkit,
    script_arguments,
)
from tests.workload.settled import workload_with

HERE = Path(__file__).parents[1] / "pipelines"


def command_line(arm: str = "compiled", **program: Any) -> list[str]:
    """What the launcher starts the script with, by what a job's request says."""
    workload = workload_with(HERE / "diffusion.toml", program=program)
    job = workload.kind.training_program(workload, arm, 8)
    given = [word for name, value in job.hyperparameters.items() for word in (f"--{name}", value)]
    return script_arguments(given, job.environment)


ALL = "--compiler inductor --batch_size 12 --learning_rate 0.0015 --precision bf16 --seed 8"
OWN = "--steps 100 --mirror true"


def test_without_a_table_all_settings_of_an_arm_are_passed_by_their_declared_names() -> None:
    assert command_line() == f"{ALL} {OWN}".split()


def test_with_a_table_only_what_it_names_is_passed_by_the_script_s_own_names() -> None:
    table = {"batch_size": "per_device_train_batch_size", "seed": "--data-seed"}
    expected = f"--per_device_train_batch_size 12 --data-seed 8 {OWN}"
    assert command_line(arguments=table) == expected.split()
    assert command_line(arguments={}) == OWN.split()


@pytest.mark.parametrize("entry", ["n_gpus", "--devices={}"])
def test_a_script_may_get_the_number_of_gpus_of_its_instance(entry: str) -> None:
    words = ["--n_gpus", "4"] if entry == "n_gpus" else ["--devices=4"]
    workload = workload_with(
        HERE / "diffusion.toml",
        program={"arguments": {"n_gpus": entry}},
        arms__compiled={"instance_type": "ml.g5.12xlarge"},
    )
    job = workload.kind.training_program(workload, "compiled", 8)
    given = [word for name, value in job.hyperparameters.items() for word in (f"--{name}", value)]
    passed = script_arguments(given, job.environment)
    assert sorted(passed) == sorted([*words, *OWN.split()])
    # It is the machine's, so that arms on other instances do not differ in their recipe for it.
    assert "n_gpus" not in hyperparameters(given)
    assert "n_gpus" not in recipe_by_toolkit({}, {"SM_HPS": json.dumps(job.hyperparameters)})


def test_words_can_stand_for_a_value_and_for_nothing() -> None:
    table = {
        "precision": {"bf16": "--bf16 true", "fp32": ""},
        "compiler": {"inductor": "--torch_compile --torch_compile_backend=inductor", "eager": ""},
        "learning_rate": "-o 'optimizer.lr={} # tuned'",
        "mirror": {"true": "--mirror"},
    }
    compiled = [
        *["--torch_compile", "--torch_compile_backend=inductor", "-o"],
        *["optimizer.lr=0.0015 # tuned", "--bf16", "true", "--steps", "100", "--mirror"],
    ]
    assert command_line(arguments=table) == compiled
    eager = ["-o", "optimizer.lr=0.001 # tuned", "--steps", "100", "--mirror"]
    assert command_line("baseline", arguments=table) == eager


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("--name=value", "--bs=12 -n=8 --steps=100 --mirror=true"),
        ("name=value", "bs=12 n=8 steps=100 mirror=true"),
        ("--name value", "--bs 12 -n 8 --steps 100 --mirror true"),
    ],
)
def test_arguments_are_written_as_the_script_reads_them(style: str, expected: str) -> None:
    table = {"batch_size": "bs", "seed": "n"}
    assert command_line(arguments=table, argument_style=style) == expected.split()


def test_a_script_that_sagemaker_s_launcher_starts_has_its_names_as_hyperparameters() -> None:
    arm = {"compiler": "training-compiler", "distribution": "pytorchxla", "precision": "fp32"}
    table = {"batch_size": "per_device_train_batch_size", "steps": "max_steps"}
    workload = workload_with(
        HERE / "diffusion.toml", program={"arguments": table}, arms__compiled={**arm, "spot": False}
    )
    program = workload.kind.training_program(workload, "compiled", 8)
    assert program.entry == "compilegate/job/launch/script_process.py"
    assert program.environment["COMPILEGATE_SCRIPT"] == "train.py"
    assert program.hyperparameters == {
        "per_device_train_batch_size": "12",
        "max_steps": "100",
        "mirror": "true",
    }
    # Its recipe is that of any other job's script, or arms would seem to differ in it.
    variables = {
        "SM_HPS": json.dumps({**program.hyperparameters, "mirror": True}),
        **program.environment,
    }
    job = json.loads(job_text(variables))
    assert recipe_by_toolkit(job, variables) == {
        "compiler": "training-compiler",
        "batch_size": 12,
        "learning_rate": 0.0015,
        "precision": "fp32",
        "seed": 8,
        "steps": 100,
        "mirror": True,
    }
