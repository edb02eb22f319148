"""What differs between a candidate and the baseline beside the compiler."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.gate.findings import Code, Outcome
from compilegate.job.evidence import EvidenceRecord


def confounds(execution):
    return {item.name: item for item in execution.judge().candidates[0].confounds}


def declare(execution, arm, **values):
    """Declare other values for an arm, and give its replicates the recipe that follows."""
    execution.declare(arm, **values)
    for seed in execution.experiment.seeds:
        execution.change_recipe(arm, seed, **values)
        execution.tell_parity(arm, seed, precision=execution.experiment.arms[arm].precision)


def test_a_compiler_only_candidate_differs_in_nothing_but_its_compiler(execution):
    assert confounds(execution) == {}


def take_fewer_steps(execution, arm, count):
    for seed in execution.experiment.seeds:
        steps = execution.record(arm, seed).steps
        execution.change_steps(arm, seed, loss=steps.loss[:count], seconds=steps.seconds[:count])


@pytest.mark.slow
def test_a_declared_difference_is_listed_as_intended_and_does_not_fail(execution):
    declare(execution, "fast", batch_size=48, learning_rate=1.5e-3, precision="bf16")
    take_fewer_steps(execution, "fast", 40)
    found = confounds(execution)
    assert {name for name, item in found.items() if item.intended} == {
        "batch_size",
        "learning_rate",
        "precision",
        "steps",
    }
    assert (found["batch_size"].baseline, found["batch_size"].candidate) == ("32", "48")
    assert execution.judge().candidates[0].outcome is Outcome.PASS


@pytest.mark.slow
def test_fewer_steps_follow_from_a_declared_batch_size_and_from_nothing_else(execution):
    for seed in (1, 2, 3):
        execution.change_recipe("fast", seed, data_order="shuffled in 48")
    assert not confounds(execution)["data_order"].intended
    declare(execution, "fast", batch_size=48)
    assert confounds(execution)["data_order"].intended


@pytest.mark.slow
def test_fewer_cores_and_values_that_only_one_side_recorded_fail_too(execution):
    execution.change_environment("fast", 1, cores_available=2, accelerator="a device")
    found = confounds(execution)
    assert not found["cores_available"].intended
    assert found["accelerator"].baseline == "not recorded"
    assert execution.judge().decision.arm == "baseline"


@pytest.mark.slow
def test_a_recipe_that_nobody_declared_fails(execution):
    for seed in (1, 2, 3):
        execution.change_recipe("fast", seed, epochs=4)
    assert not confounds(execution)["epochs"].intended
    assert execution.judge().candidates[0].outcome is Outcome.FAIL


def test_replicates_are_compared_seed_by_seed(execution):
    """Each seed has its own order of the data; only a difference within a seed is a confound."""
    for arm in ("baseline", "fast"):
        for seed in (1, 2, 3):
            execution.change_recipe(arm, seed, data_order=f"order of seed {seed}")
    assert confounds(execution) == {}


def test_an_arm_that_could_not_be_trained_fails_for_that_and_nothing_else(execution):
    """Its evidence ends where the training did, so what it lacks is no difference."""
    for seed in (1, 2, 3):
        evidence = dataclasses.replace(
            execution.record("fast", seed).evidence,
            failure="the compiler crashed",
            speed=None,
            recipe={},
            environment={},
            digests={},
        )
        execution.records["fast", seed] = EvidenceRecord(evidence, None, None)
    candidate = execution.judge().candidates[0]
    assert {reason.code for reason in candidate.reasons} == {Code.ARM_FAILED}
    assert candidate.confounds == ()


@pytest.mark.slow
def test_other_hardware_follows_from_a_declared_instance_type_and_from_nothing_else(execution):
    for seed in execution.experiment.seeds:
        execution.change_environment("fast", seed, cpu="another", instance_type="ml.g5.xlarge")
    assert not confounds(execution)["cpu"].intended
    execution.declare("fast", instance_type="ml.g5.xlarge")
    found = confounds(execution)
    assert found["cpu"].intended
    assert found["instance_type"].why == "follows from instance_type"


def declare_image(execution, image):
    execution.declare("fast", image=image)


@pytest.mark.slow
def test_another_image_fails_unless_the_arm_declares_one(execution):
    for arm, seed in execution.records:
        execution.change_environment(arm, seed, image=f"registry/{arm}:1")
    (reason,) = execution.judge().candidates[0].reasons[:1]
    assert reason.numbers["name"] == "image"
    declare_image(execution, "registry/fast:1")
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.PASS
    assert [(item.name, item.why) for item in candidate.confounds] == [
        ("image", "follows from image")
    ]


def test_what_an_image_holds_may_differ_with_it_and_the_machine_may_not(execution):
    declare_image(execution, "registry/another:1")
    for seed in execution.experiment.seeds:
        execution.change_environment("fast", seed, torch="1.13.1", cpu="another")
    found = confounds(execution)
    assert found["torch"].intended
    assert not found["cpu"].intended


def test_another_library_version_does_not_follow_from_another_instance_type(execution):
    execution.declare("fast", instance_type="ml.g5.xlarge")
    execution.change_environment("fast", 1, torch="2.12.1")
    assert not confounds(execution)["torch"].intended


@pytest.mark.slow
def test_what_scaling_and_several_processes_change_is_intended_where_they_are_declared(execution):
    recipe = {
        "global_batch_size": 64,
        "learning_rate_rule": "linear",
        "learning_rate_factor": 2.0,
        "base_learning_rate": 1e-3,
    }
    for seed in execution.experiment.seeds:
        execution.change_recipe("fast", seed, **recipe)
        execution.change_environment("fast", seed, threads=1)
    assert {item.intended for item in confounds(execution).values()} == {False}
    declare(execution, "fast", world_size=2, scale_learning_rate="linear", learning_rate=2e-3)
    found = confounds(execution)
    assert {name: item.why for name, item in found.items() if name in recipe} == {
        "global_batch_size": "follows from world_size",
        "learning_rate_rule": "follows from scale_learning_rate",
        "learning_rate_factor": "follows from scale_learning_rate",
        "base_learning_rate": "follows from scale_learning_rate",
    }
    assert found["threads"].why == "follows from world_size"
    as_many_steps = {name for name, item in found.items() if not item.intended}
    assert as_many_steps == {"examples_seen"}


def test_long_values_that_differ_only_at_their_end_differ_and_are_shown_where_they_do(execution):
    name = "registry.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-trcomp-training@sha256:"
    for arm, seed in execution.records:
        image = name + ("a" if arm == "fast" else "b") * 64
        execution.change_environment(arm, seed, image=image)
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.FAIL
    (confound,) = candidate.confounds
    assert confound.candidate.startswith("...omp-training@sha256:aaa")
    assert confound.baseline.startswith("...omp-training@sha256:bbb")


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "told"), [(60, ("5,760", "8,640")), (40, None), (41, None)])
def test_a_larger_batch_over_as_many_steps_sees_more_examples(execution, steps, told):
    """Which fails, unless it is declared; batches that end an epoch early do not."""
    execution.declare("fast", batch_size=48)
    for seed in execution.experiment.seeds:
        kept = execution.record("fast", seed).steps
        execution.change_steps("fast", seed, loss=kept.loss[:steps], seconds=kept.seconds[:steps])
        execution.change_recipe("fast", seed, batch_size=48, steps=steps)
    candidate = execution.judge().candidates[0]
    codes = {reason.code for reason in candidate.reasons if reason.outcome is Outcome.FAIL}
    assert codes == ({Code.CONFOUND_EXAMPLES_SEEN} if told else set())
    settings = execution.experiment.settings.model_copy(update={"examples_tolerance": 0.6})
    execution.experiment = execution.experiment.model_copy(update={"settings": settings})
    candidate = execution.judge().candidates[0]
    seen = [item for item in candidate.confounds if item.name == "examples_seen"]
    assert [(item.baseline, item.candidate) for item in seen] == ([told] if told else [])
    assert candidate.outcome is Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("float32_matmul_gpu", "ieee", "tf32"),
        ("cudnn_benchmark", False, True),
        ("deterministic_algorithms", True, False),
    ],
)
def test_other_arithmetic_of_torchs_own_fails_by_name(execution, name, before, after):
    for seed in execution.experiment.seeds:
        execution.change_environment("baseline", seed, **{name: before})
        execution.change_environment("fast", seed, **{name: after})
    found = confounds(execution)
    assert (found[name].baseline, found[name].candidate) == (str(before), str(after))
    assert execution.judge().candidates[0].outcome is Outcome.FAIL


@pytest.mark.slow
def test_an_arm_on_a_gpu_and_one_on_a_cpu_are_never_compared(execution):
    """No declaration makes that a comparison of compilers: another instance may have another GPU,
    and not none."""
    declare(execution, "fast", instance_type="ml.c5.xlarge")
    for seed in execution.experiment.seeds:
        execution.change_recipe("baseline", seed, device="cuda")
        execution.change_recipe("fast", seed, device="cpu")
    assert not confounds(execution)["device"].intended
    assert execution.judge().candidates[0].outcome is Outcome.FAIL


@pytest.mark.slow
def test_more_gpus_of_one_machine_follow_from_more_processes_and_from_nothing_else(execution):
    for seed in execution.experiment.seeds:
        execution.change_environment("baseline", seed, accelerators=1)
        execution.change_environment("fast", seed, accelerators=2)
    assert not confounds(execution)["accelerators"].intended
    declare(execution, "fast", world_size=2)
    assert confounds(execution)["accelerators"].intended


@pytest.mark.parametrize("apart", [(30, {}), (60, {"examples_tolerance": 0.2})])
def test_how_many_more_examples_an_arm_may_see(new_execution, apart):
    """5% where nothing is declared; a factor of 1.5 where jobs stop early."""
    settings = apart[1]
    for factor, passes in ((1.04, True), (1.4, bool(settings)), (1.6, False)):
        execution = new_execution(**settings)
        steps = int(60 / factor)
        take_fewer_steps(execution, "fast", steps)
        candidate = execution.judge().candidates[0]
        assert (candidate.outcome is Outcome.PASS) is passes
        codes = {it.code for it in candidate.reasons if it.outcome is Outcome.FAIL}
        assert codes == (set() if passes else {Code.CONFOUND_EXAMPLES_SEEN})


@pytest.mark.parametrize("name", ["cpu", "platform"])
def test_other_machines_of_one_instance_type_are_a_note(execution, name):
    for seed in execution.experiment.seeds:
        execution.change_environment("fast", seed, **{name: "another"})
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.PASS
    (note,) = [each for each in candidate.notes if each.code is Code.CONFOUND_HARDWARE]
    assert note.numbers["name"] == name
