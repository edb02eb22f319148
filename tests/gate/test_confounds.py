"""What differs between a candidate and the baseline beside the compiler."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.gate.findings import Code, Outcome

G5 = {"instance_type": "ml.g5.xlarge"}


def confounds(execution: Any) -> dict[str, Any]:
    return {item.name: item for item in execution.judge().candidates[0].confounds}


def judged(execution: Any) -> tuple[Outcome, set[Code]]:
    candidate = execution.judge().candidates[0]
    codes = {it.code for it in candidate.reasons if it.outcome is Outcome.FAIL}
    return candidate.outcome, codes


def take_fewer_steps(execution: Any, arm: str, count: int) -> None:
    for seed in execution.experiment.seeds:
        steps = execution.record(arm, seed).steps
        execution.change_steps(arm, seed, loss=steps.loss[:count], seconds=steps.seconds[:count])


def test_a_compiler_only_candidate_differs_in_nothing_but_its_compiler(execution) -> None:
    assert confounds(execution) == {}
    # Each seed has its own order of the data; only a difference within a seed is a confound.
    for arm, seed in list(execution.records):
        execution.alter(arm, seed, recipe__data_order=f"order of seed {seed}")
    assert confounds(execution) == {}


def test_declared_differences_are_listed_as_intended_and_do_not_fail(execution) -> None:
    execution.declare("fast", batch_size=48, learning_rate=1.5e-3, precision="bf16")
    changed = {"recipe__batch_size": 48, "recipe__learning_rate": 1.5e-3}
    changed |= {"recipe__precision": "bf16", "parity__precision": "bf16"}
    execution.alter_all("fast", **changed)
    take_fewer_steps(execution, "fast", 40)
    found = confounds(execution)
    assert {name for name, item in found.items() if item.intended} == {
        "batch_size",
        "learning_rate",
        "precision",
        "steps",
    }
    assert (found["batch_size"].baseline, found["batch_size"].candidate) == ("32", "48")
    assert judged(execution) == (Outcome.PASS, set())


@pytest.mark.parametrize(
    ("changed", "declared", "other"),
    [
        ("recipe__data_order", {"batch_size": 48}, G5),
        ("recipe__global_batch_size", {"world_size": 2}, G5),
        ("environment__threads", {"world_size": 2}, {"batch_size": 48}),
        ("environment__accelerators", {"world_size": 2}, {"batch_size": 48}),
        ("recipe__learning_rate_rule", {"scale_learning_rate": "linear"}, {"batch_size": 48}),
        ("recipe__base_learning_rate", {"scale_learning_rate": "linear"}, G5),
        ("recipe__data_order", {"padding": "buckets"}, {"padding": "longest"}),
        ("environment__instance_type", G5, {"image": "registry/another:1"}),
        ("environment__cpu", G5, {"image": "registry/another:1"}),
        ("environment__torch", {"image": "registry/another:1"}, G5),
        ("environment__image", {"image": "registry/another:1"}, G5),
        ("environment__cudnn_benchmark", {}, {"image": "registry/another:1"}),
        ("recipe__device", {}, {"image": "registry/another:1"}),
    ],
)
def test_what_follows_from_a_declared_difference_follows_from_no_other(
    new_execution, changed, declared, other
) -> None:
    name = changed.partition("__")[2]
    for values, intended in ((declared, True), (other, False), ({}, False)):
        execution = new_execution(examples=100)
        execution.alter_all("baseline", **{changed: 1})
        execution.alter_all("fast", **{changed: 2})
        execution.declare("fast", **values)
        assert confounds(execution)[name].intended is (intended and bool(values))


def test_an_arm_on_a_gpu_and_one_on_a_cpu_are_never_compared(execution) -> None:
    """Another instance may have another GPU, and not none."""
    execution.alter_all("baseline", recipe__device="cuda")
    execution.alter_all("fast", recipe__device="cpu")
    for instance in (None, "ml.c5.xlarge"):
        execution.declare("fast", instance_type=instance)
        assert judged(execution)[0] is Outcome.FAIL


def test_values_that_only_one_side_recorded_are_a_difference(execution) -> None:
    execution.alter("fast", 1, environment__accelerator="a device")
    assert confounds(execution)["accelerator"].baseline == "not recorded"
    assert judged(execution) == (Outcome.FAIL, {Code.CONFOUND_UNDECLARED})


@pytest.mark.parametrize(
    ("steps", "stops", "declared"),
    [(58, True, True), (55, False, True), (43, False, True), (37, False, False)],
)
def test_how_many_more_examples_an_arm_may_see(new_execution, steps, stops, declared) -> None:
    """5% where nothing is declared; a factor of 1.5 where jobs stop early."""
    for settings, passes in (({}, stops), ({"examples_tolerance": 0.2}, declared)):
        execution = new_execution(**settings)
        take_fewer_steps(execution, "fast", steps)
        outcome, codes = judged(execution)
        assert outcome is (Outcome.PASS if passes else Outcome.FAIL)
        assert codes == (set() if passes else {Code.CONFOUND_EXAMPLES_SEEN})


def test_an_arm_that_could_not_be_trained_fails_for_that_alone(execution) -> None:
    """Its evidence ends where the training did, so what it lacks is no difference."""
    for seed in execution.experiment.seeds:
        execution.alter("fast", seed, recipe={}, environment={}, digests={})
        execution.fail("fast", seed, "the compiler crashed")
    assert judged(execution) == (Outcome.FAIL, {Code.ARM_FAILED})
    assert confounds(execution) == {}


def test_long_values_are_shown_where_they_differ(execution) -> None:
    name = "registry.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-trcomp-training@sha256:"
    for arm in ("baseline", "fast"):
        execution.alter_all(arm, environment__image=name + arm[0] * 64)
    confound = confounds(execution)["image"]
    assert confound.candidate.startswith("...omp-training@sha256:fff")
    assert confound.baseline.startswith("...omp-training@sha256:bbb")
