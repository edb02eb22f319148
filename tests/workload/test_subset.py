"""Some of a workload's arms: what is left must still be a comparison, and say what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.pipelines.staging.experiment import experiment_of
from compilegate.workload import WorkloadError, read_workload

WORKLOAD = read_workload(Path(__file__).parents[2] / "workloads" / "news-topics.toml")


def test_the_chosen_arms_stay_in_their_order_and_the_others_are_named() -> None:
    chosen = WORKLOAD.with_arms(["compiler-only", "baseline"])
    assert list(chosen.arms) == ["baseline", "compiler-only"]
    assert chosen.left_out == ("larger-batch",)
    assert experiment_of(chosen).left_out == ["larger-batch"]
    assert WORKLOAD.with_arms(list(WORKLOAD.arms)) == WORKLOAD


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (
            ["baseline", "compiler_only"],
            "arms: 'compiler_only' is not declared, expected baseline, compiler-only, larger-batch",
        ),
        (
            ["compiler-only"],
            "arms: compiler-only would train, expected baseline and any candidates beside it",
        ),
    ],
)
def test_what_is_no_comparison_is_refused(names: list[str], sentence: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        WORKLOAD.with_arms(names)
    assert caught.value.problems == (sentence,)


def test_the_baseline_may_be_run_alone() -> None:
    alone = WORKLOAD.with_arms(["baseline"])
    assert (list(alone.arms), alone.left_out) == (["baseline"], ("compiler-only", "larger-batch"))
