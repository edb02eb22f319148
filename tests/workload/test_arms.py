"""What an arm may say of its compiler, its processes, its batch and its learning rate."""

from __future__ import annotations

import typing
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.workload import Workload, read_workload
from compilegate.workload.file import STACKS, ArmTable
from compilegate.workload.settled import ScaledRate, ScalingRule
from tests.workload.settled import settled_arm

HEAD = """
name = "topics"
description = "A small one"
seeds = [1]
data = {{ source = "reuters-r8", sequence_length = {length} }}
model = {model}
recipe = {{ epochs = 1 }}
compute = {{ instance_type = "ml.g5.4xlarge" }}
[gate.metrics.accuracy]
direction = "higher"
margin = 0.01
[arms.baseline]
compiler = "eager"
{baseline}
[arms.other]
{other}
"""
RATE = "learning_rate = 1e-3"
BATCH = "batch_size = 32"

Read = Callable[..., Workload]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a workload with two arms."""

    def read(
        other: str,
        *,
        baseline: str = f"{BATCH}\n{RATE}",
        model: str = '{ source = "random" }',
        length: int = 64,
    ) -> Workload:
        path = tmp_path / "topics.toml"
        path.write_text(HEAD.format(other=other, baseline=baseline, model=model, length=length))
        return read_workload(path)

    return read


def inductor(*keys: str) -> str:
    return "\n".join(['compiler = "inductor"', *keys])


def test_an_arm_says_how_torch_compile_compiles(read: Read) -> None:
    arm = read(inductor(BATCH, RATE, 'mode = "max-autotune"', "regional = true")).arms["other"]
    assert arm.compiler_options == {"compile_mode": "max-autotune", "regional": True}


def test_the_examples_of_a_step_are_those_of_all_processes(read: Read) -> None:
    keys = ('distribution = "torchrun"', "processes = 4", "instance_count = 2")
    arm = read(inductor(BATCH, RATE, *keys)).arms["other"]
    assert (arm.world_size, arm.global_batch_size) == (8, 256)


@pytest.mark.parametrize(("rule", "rate"), [("linear", 8e-3), ("square-root", 8**0.5 * 1e-3)])
def test_a_learning_rate_is_scaled_by_the_examples_of_a_step(
    read: Read, rule: str, rate: float
) -> None:
    keys = (f'scale_learning_rate = "{rule}"', 'distribution = "torchrun"', "processes = 4")
    arm = read(inductor("batch_size = 64", *keys)).arms["other"]
    assert arm.learning_rate == pytest.approx(rate)
    scaled = arm.scaled_rate
    assert scaled is not None
    assert (scaled.rule, scaled.base_batch, scaled.batch) == (rule, 32, 256)


@pytest.mark.parametrize(
    ("compiler", "batch_size"),
    [("training-compiler", 288), ("inductor", 160), ("eager", 160)],
)
def test_a_batch_size_that_is_left_out_is_what_aws_fitted_for_model_and_compiler(
    read: Read, compiler: str, batch_size: int
) -> None:
    hub = '{ source = "hub", id = "bert-base-uncased" }'
    other = f'compiler = "{compiler}"\n{RATE}\nprecision = "fp16"'
    arm = read(other, model=hub, length=128).arms["other"]
    assert arm.batch_size == batch_size


sizes = st.integers(1, 10**6)


@given(rate=st.floats(1e-6, 1.0), one=sizes, two=sizes, three=sizes)
def test_scaling_twice_is_scaling_once_by_the_whole(
    rate: float, one: int, two: int, three: int
) -> None:
    def scaled(rule: ScalingRule, base: float, before: int, after: int) -> float:
        return ScaledRate(rule=rule, base_rate=base, base_batch=before, batch=after).rate

    for rule in typing.get_args(ScalingRule):
        there = scaled(rule, scaled(rule, rate, one, two), two, three)
        assert there == pytest.approx(scaled(rule, rate, one, three), rel=1e-9)
        assert scaled(rule, there, three, one) == pytest.approx(rate, rel=1e-9)


PLAIN = {"compiler": "training-compiler", "batch_size": 8, "learning_rate": 1e-3}


def table(**changes: object) -> ArmTable:
    return ArmTable.model_validate({**PLAIN, **changes})


def test_training_compiler_s_stack_is_its_newest_unless_another_is_declared() -> None:
    assert table().stack == STACKS["training-compiler"](framework="pytorch", version="1.13.1")
    older = {"version": "1.10.2", "transformers": "4.17.0", "debug": True}
    assert table(training_compiler=older).stack == STACKS["training-compiler"].model_validate(older)
    assert table(compiler="neuron").stack == STACKS["neuron"].model_validate({"version": "2.9.0"})
    assert table(compiler="inductor").stack is None


def test_torchrun_starts_the_processes_of_xla_too() -> None:
    wide = settled_arm(**{**PLAIN, "compiler": "xla", "distribution": "torchrun", "processes": 2})
    assert (wide.world_size, wide.global_batch_size) == (2, 2 * wide.batch_size)


def test_a_backend_of_torch_compile_has_a_name_a_mode_and_options_of_its_own() -> None:
    settled = settled_arm(
        compiler="torch-compile",
        batch_size=8,
        learning_rate=1e-3,
        backend="house.backends.compiling",
        options={"triton.cudagraphs": True, "level": 2},
        mode="max-autotune",
        dynamic=True,
    )
    assert settled.compiler_options == {
        "backend": "house.backends.compiling",
        "backend_options": '{"level":2,"triton.cudagraphs":true}',
        "compile_mode": "max-autotune",
        "dynamic_shapes": True,
    }


def test_the_defaults_of_an_arm_are_one_process_and_torch_s_own_mode() -> None:
    arm = settled_arm(compiler="inductor", batch_size=8, learning_rate=1e-3)
    assert (arm.world_size, arm.compiler_options) == (1, {})


def on_every_gpu(*keys: str) -> str:
    arm = 'compiler = "training-compiler"\nbatch_size = 8\nscale_learning_rate = "linear"\n'
    where = 'distribution = "pytorchxla"\ninstance_type = "ml.p3.16xlarge"\ninstance_count = 2'
    return "\n".join([arm + where, *keys])


def test_where_each_accelerator_has_a_process_the_instance_says_how_many(read: Read) -> None:
    declared = read(on_every_gpu()).arms["other"]
    assert (declared.world_size, declared.global_batch_size) == (16, 128)
    assert declared.learning_rate == pytest.approx(4e-3)
    assert read(on_every_gpu("processes = 8")).arms["other"].world_size == 16


TENSORFLOW = """
[arms.other.training_compiler]
framework = "tensorflow"
version = "2.11.0"
"""


@pytest.mark.parametrize(
    ("instance", "more", "gpus"),
    [
        ("ml.p3.8xlarge", 'distribution = "pytorchxla"', 4),
        ("ml.p3.8xlarge", TENSORFLOW, 4),
        ("ml.p3.16xlarge", TENSORFLOW, 8),
        ("ml.p3.2xlarge", TENSORFLOW, 1),
        ("ml.p3.2xlarge", "", 1),
    ],
)
def test_a_rate_is_scaled_by_aws_s_formula_whatever_divides_a_step_among_the_gpus(
    read: Read, instance: str, more: str, gpus: int
) -> None:
    """learning_rate_native / batch_size_native * batch_size * num_gpus * instance_count."""
    keys = (
        'compiler = "training-compiler"',
        "batch_size = 48",
        'scale_learning_rate = "linear"',
        f'instance_type = "{instance}"',
        more,
    )
    declared = read("\n".join(keys))
    arm = declared.arms["other"]
    assert arm.learning_rate == pytest.approx(1e-3 / 32 * 48 * gpus)
    assert arm.global_batch_size == 48 * gpus
    assert arm.replicas == (gpus if more == TENSORFLOW else 1)


def test_the_documented_arm_has_the_rate_of_that_formula() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compilers.md").read_text(encoding="utf-8")
    example = page.partition("[arms.compiled]")[2].partition("```")[0]
    assert "batch_size = 48 " in example
    assert 'instance_type = "ml.p3.8xlarge"' in example
    assert f"learning_rate = {1e-3 / 32 * 48 * 4:g}".replace("0.006", "6e-3") in example
