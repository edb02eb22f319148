"""What an arm may say of its compiler, its processes, its batch, its rate and its padding."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.settings import Padding
from compilegate.job.contract import PADDINGS
from compilegate.pipelines.staging.placement import experiment_of
from compilegate.workload import Arm, Workload
from compilegate.workload.declaration.arms import STACKS, ArmTable
from compilegate.workload.settled import ScaledRate, ScalingRule
from tests.workload.settled import TOPICS, settled_arm, workload_with

PLAIN = {"compiler": "inductor", "batch_size": 8, "learning_rate": 1e-3}
BASELINE = {"batch_size": 32, "learning_rate": 1e-3}
LAUNCHED = {"distribution": "torchrun", "processes": 4}


def beside(**table: Any) -> Arm:
    """An arm with these keys beside a baseline of batch 32 and rate 0.001."""
    workload = workload_with(TOPICS, arms__baseline=BASELINE, arms={"compiled": table})
    return workload.arms["compiled"]


def test_the_defaults_of_an_arm_are_one_process_and_torch_s_own_mode() -> None:
    arm = settled_arm(**PLAIN)
    assert (arm.world_size, arm.compiler_options) == (1, {})


def test_a_backend_of_torch_compile_has_a_name_a_mode_and_options_of_its_own() -> None:
    own = {"backend": "house.backends.compiling", "mode": "max-autotune", "dynamic": True}
    options = {"triton.cudagraphs": True, "level": 2}
    arm = settled_arm(**{**PLAIN, "compiler": "torch-compile", **own, "options": options})
    assert arm.compiler_options == {
        "backend": "house.backends.compiling",
        "backend_options": '{"level":2,"triton.cudagraphs":true}',
        "compile_mode": "max-autotune",
        "dynamic_shapes": True,
    }


def test_training_compiler_s_stack_is_its_newest_unless_another_is_declared() -> None:
    def stack(**changes: object) -> object:
        compiler = {"compiler": "training-compiler"}
        return ArmTable.model_validate({**PLAIN, **compiler, **changes}).stack

    older = {"version": "1.10.2", "transformers": "4.17.0", "debug": True}
    known = STACKS["training-compiler"]
    assert stack() == known(framework="pytorch", version="1.13.1")
    assert stack(training_compiler=older) == known.model_validate(older)
    assert stack(compiler="neuron") == STACKS["neuron"].model_validate({"version": "2.9.0"})
    assert stack(compiler="inductor") is None


def test_the_examples_of_a_step_are_those_of_all_processes() -> None:
    for compiler in ("inductor", "xla"):
        arm = beside(**{**PLAIN, **LAUNCHED, "compiler": compiler, "instance_count": 2})
        assert (arm.world_size, arm.global_batch_size) == (8, 64)


@pytest.mark.parametrize(("rule", "rate"), [("linear", 8e-3), ("square-root", 8**0.5 * 1e-3)])
def test_a_learning_rate_is_scaled_by_the_examples_of_a_step(rule: str, rate: float) -> None:
    arm = beside(compiler="inductor", batch_size=64, scale_learning_rate=rule, **LAUNCHED)
    assert arm.learning_rate == pytest.approx(rate)
    scaled = arm.scaled_rate
    assert scaled is not None
    assert (scaled.rule, scaled.base_batch, scaled.batch) == (rule, 32, 256)


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


@pytest.mark.parametrize(
    ("compiler", "batch_size"), [("training-compiler", 288), ("inductor", 160), ("eager", 160)]
)
def test_a_batch_size_that_is_left_out_is_what_aws_fitted_for_model_and_compiler(
    compiler: str, batch_size: int
) -> None:
    sizes = dict.fromkeys(("layers", "hidden_size", "attention_heads", "intermediate_size"))
    workload = workload_with(
        TOPICS,
        model={"source": "hub", "id": "bert-base-uncased", **sizes, "dropout": None},
        data={"sequence_length": 128},
        compute={"instance_type": "ml.g5.4xlarge"},
        arms={"compiled": {"compiler": compiler, "learning_rate": 1e-3, "precision": "fp16"}},
    )
    assert workload.arms["compiled"].batch_size == batch_size


TENSORFLOW = {"training_compiler": {"framework": "tensorflow", "version": "2.11.0"}}
EACH = {"distribution": "pytorchxla"}


@pytest.mark.parametrize(
    ("instance", "more", "gpus"),
    [
        ("ml.p3.8xlarge", EACH, 4),
        ("ml.p3.16xlarge", {**EACH, "instance_count": 2}, 16),
        ("ml.p3.8xlarge", TENSORFLOW, 4),
        ("ml.p3.16xlarge", TENSORFLOW, 8),
        ("ml.p3.2xlarge", TENSORFLOW, 1),
        ("ml.p3.2xlarge", {}, 1),
    ],
    ids=str,
)
def test_a_rate_is_scaled_by_aws_s_formula_whatever_divides_a_step_among_the_gpus(
    instance: str, more: dict[str, Any], gpus: int
) -> None:
    """learning_rate_native / batch_size_native * batch_size * num_gpus * instance_count."""
    scaled = {"batch_size": 48, "scale_learning_rate": "linear", "instance_type": instance}
    arm = beside(compiler="training-compiler", **scaled, **more)
    assert arm.learning_rate == pytest.approx(1e-3 / 32 * 48 * gpus)
    assert arm.global_batch_size == 48 * gpus
    assert arm.replicas == (gpus if more == TENSORFLOW else 1)


def test_the_documented_arm_has_the_rate_of_that_formula() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compilers.md").read_text(encoding="utf-8")
    example = page.partition("[arms.compiled]")[2].partition("```")[0]
    assert "batch_size = 48 " in example
    assert 'instance_type = "ml.p3.8xlarge"' in example
    assert f"learning_rate = {1e-3 / 32 * 48 * 4:g}".replace("0.006", "6e-3") in example


def padded(data: str | None = None, compiled: str | None = None) -> Workload:
    changes = {"data": {"padding": data}, "arms__compiled": {"padding": compiled}}
    return workload_with(TOPICS, **changes)


def hyperparameters(workload: Workload) -> Mapping[str, str]:
    return workload.kind.training_program(workload, "baseline", 1).hyperparameters


def test_documents_are_padded_to_one_length_unless_the_data_or_an_arm_say_otherwise() -> None:
    assert typing.get_args(Padding) == PADDINGS
    usual, buckets, both = padded(), padded("buckets"), padded("longest", "buckets")
    assert [arm.padding for arm in usual.arms.values()] == ["max", "max"]
    # Spelled out, the default would train every arm anew.
    assert "padding" not in hyperparameters(usual)
    assert {arm.padding for arm in experiment_of(usual).arms.values()} == {None}
    assert [arm.padding for arm in buckets.arms.values()] == ["buckets", "buckets"]
    assert hyperparameters(buckets)["padding"] == "buckets"
    declared = experiment_of(both).arms
    assert [declared[name].padding for name in ("baseline", "compiled")] == ["longest", "buckets"]


def test_a_limit_of_graphs_is_for_each_of_the_buckets_unless_the_arm_says_it() -> None:
    def options(**keys: object) -> object:
        return settled_arm(**{**PLAIN, "compiler": "xla", **keys}).compiler_options

    assert options() == {}
    assert options(padding="buckets") == {"step_graphs": 16}
    assert options(padding="buckets", step_graphs=5) == {"step_graphs": 5}


@pytest.mark.parametrize("compiler", ["inductor", "torch-compile"])
def test_torch_compile_takes_the_longest(compiler: str) -> None:
    assert settled_arm(**{**PLAIN, "compiler": compiler, "padding": "longest"}).padding == "longest"
