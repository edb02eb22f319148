"""What differs between a candidate and the baseline beside the compiler."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.gate.findings import Code, Outcome
from compilegate.gate.observations import Observations, observe
from tests.gate.conftest import build_execution
from tests.gate.test_speed import PADDED

G5 = {"instance_type": "ml.g5.xlarge"}
IMAGE = {"image": "registry/another:1"}


def confounds(execution: Any) -> dict[str, Any]:
    return {item.name: item for item in execution.judge().candidates[0].confounds}


def judged(execution: Any) -> tuple[Outcome, set[Code]]:
    candidate = execution.judge().candidates[0]
    codes = {it.code for it in candidate.reasons if it.outcome is Outcome.FAIL}
    return candidate.outcome, codes


def take_fewer_steps(execution: Any, arm: str, count: int) -> None:
    for seed in execution.experiment.seeds:
        steps = execution.record(arm, seed).steps
        columns = {"loss": steps.loss[:count], "seconds": steps.seconds[:count]}
        execution.put(arm, seed, steps=columns)


def test_declared_differences_are_listed_as_intended_and_do_not_fail(execution) -> None:
    execution.declare("fast", batch_size=48, learning_rate=1.5e-3, precision="bf16")
    changed = {"recipe__batch_size": 48, "recipe__learning_rate": 1.5e-3}
    changed |= {"recipe__precision": "bf16", "parity__precision": "bf16"}
    execution.alter_all("fast", **changed)
    take_fewer_steps(execution, "fast", 40)
    # Each seed has its own order of the data; only a difference within a seed is a confound.
    for arm, seed in list(execution.records):
        execution.alter(arm, seed, recipe__data_order=f"order of seed {seed}")
    found = confounds(execution)
    intended = {name for name, item in found.items() if item.intended}
    assert intended == set(found) == {"batch_size", "learning_rate", "precision", "steps"}
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
        ("environment__instance_type", G5, IMAGE),
        ("environment__cpu", G5, IMAGE),
        ("environment__torch", IMAGE, G5),
        ("environment__image", IMAGE, G5),
        ("environment__cudnn_benchmark", {}, IMAGE),
        ("recipe__device", {}, IMAGE),
    ],
)
def test_what_follows_from_a_declared_difference_follows_from_no_other(
    changed, declared, other
) -> None:
    name = changed.partition("__")[2]
    for values, intended in ((declared, True), (other, False), ({}, False)):
        execution = build_execution(examples=100)
        execution.alter_all("baseline", **{changed: 1})
        execution.alter_all("fast", **{changed: 2})
        execution.declare("fast", **values)
        assert confounds(execution)[name].intended is (intended and bool(values))


def test_an_arm_on_a_gpu_and_one_on_a_cpu_are_never_compared(execution) -> None:
    """Another instance may have another GPU, and not none."""
    execution.declare("fast", instance_type="ml.c5.xlarge")
    execution.alter_all("baseline", recipe__device="cuda")
    execution.alter_all("fast", recipe__device="cpu")
    assert not confounds(execution)["device"].intended


def test_values_that_only_one_side_recorded_are_a_difference(execution) -> None:
    execution.alter("fast", 1, environment__accelerator="a device")
    assert confounds(execution)["accelerator"].baseline == "not recorded"
    assert judged(execution) == (Outcome.FAIL, {Code.CONFOUND_UNDECLARED})


@pytest.mark.parametrize(
    ("steps", "stops", "declared"),
    [(58, True, True), (55, False, True), (43, False, True), (37, False, False)],
)
def test_how_many_more_examples_an_arm_may_see(steps, stops, declared) -> None:
    """5% where nothing is declared; a factor of 1.5 where jobs stop early."""
    for settings, passes in (({}, stops), ({"examples_tolerance": 0.2}, declared)):
        execution = build_execution(**settings)
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
    for arm in ("baseline", "fast"):
        image = "registry.dkr.ecr.us-east-1.amazonaws.com/huggingface-training@sha256:"
        execution.alter_all(arm, environment__image=image + arm[0] * 64)
    confound = confounds(execution)["image"]
    assert confound.candidate.startswith("...ace-training@sha256:fff")
    assert confound.baseline.startswith("...ace-training@sha256:bbb")


@pytest.mark.parametrize(
    ("before", "after", "orders", "outcome"),
    [
        ("max", "buckets", ("the seed's", "by length"), Outcome.PASS),
        ("max", "longest", ("the seed's", "by length"), Outcome.FAIL),
        ("buckets", "buckets", ("the seed's", "by length"), Outcome.FAIL),
        ("max", "max", ("the seed's", "the seed's"), Outcome.PASS),
    ],
)
def test_declared_padding_is_intended_and_an_order_follows_from_buckets_alone(
    execution, before, after, orders, outcome
) -> None:
    paddings = {"baseline": before, "fast": after}
    for (arm, padding), order in zip(paddings.items(), orders, strict=True):
        execution.declare(arm, padding=padding)
        changed = {"recipe__padding": padding, "recipe__data_order": order}
        execution.alter_all(arm, padding=PADDED[padding], **changed)
    found = {name: item.intended for name, item in confounds(execution).items()}
    assert judged(execution)[0] is outcome
    assert found.get("padding", True)
    assert found.get("data_order", True) is (outcome is Outcome.PASS)
    observed = observe(execution.experiment, execution.records)
    assert {each.arm: each.padding.padding for each in observed.arms} == paddings
    assert Observations.from_json(observed.to_json()) == observed
