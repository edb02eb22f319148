"""How documents are padded, by what a workload and its arms say."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from compilegate.gate.settings import Padding
from compilegate.job.names import PADDINGS
from compilegate.pipelines.staging.experiment import experiment_of
from compilegate.workload import Workload
from tests.workload.settled import TOPICS, workload_with


def padded(data: str | None = None, **arms: str) -> Workload:
    """The workload with that padding of all arms, and of some."""
    named = {name.replace("_", "-"): padding for name, padding in arms.items()}
    changes: dict[str, Any] = {"data": {"padding": data}}
    for name, padding in named.items():
        changes[f"arms__{name}"] = {"padding": padding}
    return workload_with(TOPICS, **changes)


def hyperparameters(workload: Workload, arm: str) -> typing.Mapping[str, str]:
    return workload.kind.training_program(workload, arm, 1).hyperparameters


def test_every_document_is_padded_to_one_length_unless_told_otherwise() -> None:
    workload = padded()
    assert {arm.padding for arm in workload.arms.values()} == {"max"}
    # Spelled out, the default would train every arm anew.
    assert "padding" not in hyperparameters(workload, "baseline")
    assert {arm.padding for arm in experiment_of(workload).arms.values()} == {None}


def test_the_names_of_the_ways_are_those_that_jobs_know() -> None:
    assert typing.get_args(Padding) == PADDINGS


def test_the_data_s_padding_is_that_of_every_arm() -> None:
    workload = padded("buckets")
    assert {arm.padding for arm in workload.arms.values()} == {"buckets"}
    assert hyperparameters(workload, "baseline")["padding"] == "buckets"


def test_an_arm_may_pad_in_another_way_and_the_gate_is_told() -> None:
    first, *others = padded().candidates
    workload = padded("longest", **dict.fromkeys(map(_identifier, [first, *others]), "buckets"))
    assert workload.arms["baseline"].padding == "longest"
    assert workload.arms[first].padding == "buckets"
    declared = experiment_of(workload).arms
    assert (declared["baseline"].padding, declared[first].padding) == ("longest", "buckets")


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def test_a_limit_of_graphs_is_for_each_of_the_buckets_unless_the_arm_says_it() -> None:
    xla = {"compiler": "xla", "batch_size": 8, "learning_rate": 1e-3}

    def options(**keys: object) -> object:
        return workload_with(TOPICS, arms__other={**xla, **keys}).arms["other"].compiler_options

    assert options() == {}
    assert options(padding="buckets") == {"step_graphs": 16}
    assert options(padding="buckets", step_graphs=5) == {"step_graphs": 5}


@pytest.mark.parametrize("compiler", ["inductor", "torch-compile"])
def test_torch_compile_takes_the_longest(compiler: str) -> None:
    arm = {"compiler": compiler, "batch_size": 8, "learning_rate": 1e-3, "padding": "longest"}
    assert workload_with(TOPICS, arms__short=arm).arms["short"].padding == "longest"
