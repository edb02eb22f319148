"""`[program.arguments]`: a script's own names and words, and what is said of a wrong table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.job.launch.told import (
    hyperparameters,
    job_text,
    recipe_by_toolkit,
    script_arguments,
)
from compilegate.workload import WorkloadError, read_workload
from tests.workload.settled import workload_with
from tests.workload.test_own_program import ARMS, COMPARED

HERE = Path(__file__).parents[1] / "pipelines"


def command_line(arm: str = "compiled", **program: Any) -> list[str]:
    """What the launcher starts the script with, by what a job's request says."""
    workload = workload_with(HERE / "diffusion.toml", program=program)
    told = workload.kind.training_program(workload, arm, 8)
    given = [word for name, value in told.hyperparameters.items() for word in (f"--{name}", value)]
    return script_arguments(given, told.environment)


ALL = "--compiler inductor --batch_size 12 --learning_rate 0.0015 --precision bf16 --seed 8"
OWN = "--steps 100 --mirror true"


def test_without_a_table_all_that_an_arm_is_told_is_passed_by_its_declared_name() -> None:
    assert command_line() == f"{ALL} {OWN}".split()


def test_with_a_table_only_what_it_names_is_passed_by_the_script_s_own_names() -> None:
    table = {"batch_size": "per_device_train_batch_size", "seed": "--data-seed"}
    expected = f"--per_device_train_batch_size 12 --data-seed 8 {OWN}"
    assert command_line(arguments=table) == expected.split()
    assert command_line(arguments={}) == OWN.split()


@pytest.mark.parametrize("entry", ["n_gpus", "--devices={}"])
def test_a_script_that_asks_for_the_number_of_gpus_is_told_that_of_its_instance(entry: str) -> None:
    words = ["--n_gpus", "4"] if entry == "n_gpus" else ["--devices=4"]
    workload = workload_with(
        HERE / "diffusion.toml",
        program={"arguments": {"n_gpus": entry}},
        arms__compiled={"instance_type": "ml.g5.12xlarge"},
    )
    told = workload.kind.training_program(workload, "compiled", 8)
    given = [word for name, value in told.hyperparameters.items() for word in (f"--{name}", value)]
    passed = script_arguments(given, told.environment)
    assert sorted(passed) == sorted([*words, *OWN.split()])
    # It is the machine's, so that arms on other instances do not differ in their recipe for it.
    assert "n_gpus" not in hyperparameters(given)
    assert "n_gpus" not in recipe_by_toolkit({}, {"SM_HPS": json.dumps(told.hyperparameters)})


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
    told = {
        "SM_HPS": json.dumps({**program.hyperparameters, "mirror": True}),
        **program.environment,
    }
    job = json.loads(job_text(told))
    assert recipe_by_toolkit(job, told) == {
        "compiler": "training-compiler",
        "batch_size": 12,
        "learning_rate": 0.0015,
        "precision": "fp32",
        "seed": 8,
        "steps": 100,
        "mirror": True,
    }


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            'batchsize = "bs"',
            "program.arguments.batchsize is not an argument (did you mean 'batch_size'?), allowed: "
            "compiler, batch_size, learning_rate, precision, seed, n_gpus; names of",
        ),
        ("batch_size = 3", "program.arguments: batch_size is 3, allowed: the script's own name"),
        ('batch_size = ""', "program.arguments: batch_size is '', allowed: the script's own name"),
        ('seed = "a b"', "program.arguments: seed is 'a b', allowed: the script's own name for it"),
        (
            'seed = "--s \'{}"',
            'program.arguments: seed holds "--s \'{}", which is no part of a com',
        ),
        (
            'seed = { 1 = "-x" }',
            "program.arguments.seed is a table, allowed: the script's own name",
        ),
        (
            'precision = { bf16 = "--bf16" }',
            "program.arguments.precision has no words for 'fp32', which arms.baseline has, "
            "allowed: one entry for each value (now: bf16); '' passes nothing",
        ),
        (
            'seed = "n"\nbatch_size = "--n"',
            "program.arguments.batch_size is '--n', which program.arguments.seed is passed as",
        ),
        (
            'seed = "steps"\n[program.hyperparameters]\nsteps = 3',
            "program.arguments.seed is 'steps', which program.hyperparameters.steps is passed as",
        ),
        (
            'fast = { true = "--fast" }\n[program.hyperparameters]\nfast = false',
            "program.arguments.fast has no words for 'false', which program.hyperparameters.fast",
        ),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, table: str, sentence: str) -> None:
    assert problem_of(tmp_path, f"[program.arguments]\n{table}\n{ARMS}").startswith(sentence)


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (
            '[program.arguments]\ncompiler = { training-compiler = "-c", eager = "" }',
            "program.arguments.compiler is {'training-compiler': '-c', 'eager': ''} beside "
            "arms.compiled.distribution = 'pytorchxla', whose launcher passes every argument as",
        ),
        (
            'argument_style = "--name=value"',
            "program.argument_style is '--name=value' beside arms.compiled.distribution",
        ),
    ],
)
def test_sagemaker_s_own_launchers_can_only_be_given_other_names(
    tmp_path: Path, program: str, sentence: str
) -> None:
    launched = 'compiler = "training-compiler"\ndistribution = "pytorchxla"'
    arms = ARMS.replace('compiler = "inductor"', launched)
    assert problem_of(tmp_path, f"{program}\n{arms}").startswith(sentence)


def problem_of(folder: Path, after_program: str) -> str:
    path = folder / "mine.toml"
    path.write_text(COMPARED.replace(ARMS, after_program), encoding="utf-8")
    with pytest.raises(WorkloadError) as caught:
        read_workload(path)
    (problem,) = caught.value.problems
    return problem.removeprefix(f"{path}: ")
