"""What differs between a candidate and the baseline beside the compiler."""

from __future__ import annotations

import dataclasses

import pytest

from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import ArmDeclaration
from compilegate.job.evidence import EvidenceRecord


def confounds(execution):
    return {item.name: item for item in execution.judge().candidates[0].confounds}


def change_environment(execution, arm, seed, **values):
    environment = {**execution.record(arm, seed).evidence.environment, **values}
    execution.change_evidence(arm, seed, environment=environment)


def change_recipe(execution, arm, seed, **values):
    recipe = {**execution.record(arm, seed).evidence.recipe, **values}
    execution.change_evidence(arm, seed, recipe=recipe)


def declare(execution, arm, **values):
    """Declare other values for an arm, and give its replicates the recipe that follows."""
    arms = dict(execution.experiment.arms)
    arms[arm] = ArmDeclaration(**{**arms[arm].model_dump(), **values})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    for seed in execution.experiment.seeds:
        change_recipe(execution, arm, seed, **values)
        parity = execution.record(arm, seed).evidence.parity
        precision = arms[arm].precision
        execution.change_evidence(
            arm, seed, parity=dataclasses.replace(parity, precision=precision)
        )


def test_a_compiler_only_candidate_differs_in_nothing_but_its_compiler(execution):
    assert confounds(execution) == {}


@pytest.mark.slow
def test_how_a_compiler_is_set_is_no_confound_whatever_the_option_is_called(execution):
    for seed in (1, 2, 3):
        compiler = execution.record("fast", seed).evidence.compiler
        options = {"an option of next year": True, "batch_size": 7}
        execution.change_evidence(
            "fast", seed, compiler=dataclasses.replace(compiler, options=options)
        )
    assert confounds(execution) == {}
    assert execution.judge().candidates[0].outcome is Outcome.PASS


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
        change_recipe(execution, "fast", seed, data_order="shuffled in 48")
    assert not confounds(execution)["data_order"].intended
    declare(execution, "fast", batch_size=48)
    assert confounds(execution)["data_order"].intended


def test_another_library_version_fails_the_candidate_by_name(execution):
    change_environment(execution, "fast", 2, torch="2.12.1")
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.FAIL
    reason = next(item for item in candidate.reasons if item.code is Code.CONFOUND_UNDECLARED)
    assert reason.numbers["name"] == "torch"
    assert "2.12.1 instead of 2.13.0" in reason.sentence


@pytest.mark.slow
def test_fewer_cores_and_values_that_only_one_side_recorded_fail_too(execution):
    change_environment(execution, "fast", 1, cores_available=2, accelerator="a device")
    found = confounds(execution)
    assert not found["cores_available"].intended
    assert found["accelerator"].baseline == "not recorded"
    assert execution.judge().decision.arm == "baseline"


@pytest.mark.slow
def test_a_recipe_that_nobody_declared_fails(execution):
    change_recipe(execution, "fast", 1, epochs=4)
    assert not confounds(execution)["epochs"].intended
    assert execution.judge().candidates[0].outcome is Outcome.FAIL


def test_replicates_are_compared_seed_by_seed(execution):
    """Each seed has its own order of the data; only a difference within a seed is a confound."""
    for arm in ("baseline", "fast"):
        for seed in (1, 2, 3):
            change_recipe(execution, arm, seed, data_order=f"order of seed {seed}")
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


def test_the_intervals_are_still_computed_for_a_confounded_candidate(execution):
    change_environment(execution, "fast", 1, torch="2.12.1")
    candidate = execution.judge().candidates[0]
    assert [metric.outcome for metric in candidate.metrics] == [Outcome.PASS, Outcome.PASS]
    assert candidate.reasons[0].outcome is Outcome.FAIL
    assert candidate.confounds[0].name == "torch"


@pytest.mark.slow
def test_other_hardware_follows_from_a_declared_instance_type_and_from_nothing_else(execution):
    for seed in execution.experiment.seeds:
        change_environment(execution, "fast", seed, cpu="another", instance_type="ml.g5.xlarge")
    assert not confounds(execution)["cpu"].intended
    arms = dict(execution.experiment.arms)
    arms["fast"] = arms["fast"].model_copy(update={"instance_type": "ml.g5.xlarge"})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    found = confounds(execution)
    assert found["cpu"].intended
    assert found["instance_type"].why == "follows from instance_type"


def declare_image(execution, image):
    arms = dict(execution.experiment.arms)
    arms["fast"] = arms["fast"].model_copy(update={"image": image})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})


@pytest.mark.slow
def test_another_image_fails_unless_the_arm_declares_one(execution):
    for arm, seed in execution.records:
        change_environment(execution, arm, seed, image=f"registry/{arm}:1")
    (reason,) = execution.judge().candidates[0].reasons[:1]
    assert reason.sentence == (
        "image differs from the baseline without being declared: registry/fast:1 instead of "
        "registry/baseline:1."
    )
    declare_image(execution, "registry/fast:1")
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.PASS
    assert [(item.name, item.why) for item in candidate.confounds] == [
        ("image", "follows from image")
    ]


def test_what_an_image_holds_may_differ_with_it_and_the_machine_may_not(execution):
    declare_image(execution, "registry/another:1")
    for seed in execution.experiment.seeds:
        change_environment(execution, "fast", seed, torch="1.13.1", cpu="another")
    found = confounds(execution)
    assert found["torch"].intended
    assert not found["cpu"].intended


def test_another_library_version_does_not_follow_from_another_instance_type(execution):
    arms = dict(execution.experiment.arms)
    arms["fast"] = arms["fast"].model_copy(update={"instance_type": "ml.g5.xlarge"})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    change_environment(execution, "fast", 1, torch="2.12.1")
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
        change_recipe(execution, "fast", seed, **recipe)
        change_environment(execution, "fast", seed, threads=1)
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
        change_environment(execution, arm, seed, image=image)
    candidate = execution.judge().candidates[0]
    assert candidate.outcome is Outcome.FAIL
    (confound,) = candidate.confounds
    assert confound.candidate.startswith("...omp-training@sha256:aaa")
    assert confound.baseline.startswith("...omp-training@sha256:bbb")


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "told"), [(60, ("1,920", "2,880")), (40, None), (41, None)])
def test_a_larger_batch_over_as_many_steps_sees_more_examples(execution, steps, told):
    """Which fails, unless it is declared; batches that end an epoch early do not."""
    arms = dict(execution.experiment.arms)
    arms["fast"] = arms["fast"].model_copy(update={"batch_size": 48})
    execution.experiment = execution.experiment.model_copy(update={"arms": arms})
    for seed in execution.experiment.seeds:
        kept = execution.record("fast", seed).steps
        execution.change_steps("fast", seed, loss=kept.loss[:steps], seconds=kept.seconds[:steps])
        change_recipe(execution, "fast", seed, batch_size=48, steps=steps)
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
        change_environment(execution, "baseline", seed, **{name: before})
        change_environment(execution, "fast", seed, **{name: after})
    found = confounds(execution)
    assert (found[name].baseline, found[name].candidate) == (str(before), str(after))
    assert execution.judge().candidates[0].outcome is Outcome.FAIL


@pytest.mark.slow
def test_an_arm_on_a_gpu_and_one_on_a_cpu_are_never_compared(execution):
    """No declaration makes that a comparison of compilers: another instance may have another GPU,
    and not none."""
    declare(execution, "fast", instance_type="ml.c5.xlarge")
    for seed in execution.experiment.seeds:
        change_recipe(execution, "baseline", seed, device="cuda")
        change_recipe(execution, "fast", seed, device="cpu")
    assert not confounds(execution)["device"].intended
    assert execution.judge().candidates[0].outcome is Outcome.FAIL


@pytest.mark.slow
def test_more_gpus_of_one_machine_follow_from_more_processes_and_from_nothing_else(execution):
    for seed in execution.experiment.seeds:
        change_environment(execution, "baseline", seed, accelerators=1)
        change_environment(execution, "fast", seed, accelerators=2)
    assert not confounds(execution)["accelerators"].intended
    declare(execution, "fast", world_size=2)
    assert confounds(execution)["accelerators"].intended
