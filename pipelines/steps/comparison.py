"""The steps of a workload: prepare, train, gate, decide."""

from __future__ import annotations

from compilegate.document.model import Step
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import gate_steps
from compilegate.pipelines.steps.neuron import after_extraction, extraction_steps
from compilegate.pipelines.steps.posture import posture_steps
from compilegate.pipelines.steps.preparation import prepared_data
from compilegate.pipelines.steps.registered import open_step
from compilegate.pipelines.steps.registration import decide_steps
from compilegate.pipelines.steps.training import training_step


def comparison_steps(blueprint: Blueprint) -> list[Step]:
    """Every step, in the order in which they can run."""
    if blueprint.workload.posture is not None:
        return posture_steps(blueprint)
    before, data = prepared_data(blueprint)
    # Seed by seed, not arm by arm: where jobs run one after the other, a machine that slows down
    # over time then slows all arms alike.
    trained = {
        (arm, seed): training_step(blueprint, data, arm_name=arm, seed=seed)
        for seed in blueprint.workload.seeds
        for arm in blueprint.workload.arms
    }
    opened = open_step(blueprint)
    gating = gate_steps(blueprint, trained, opened)
    decide = decide_steps(blueprint, gating[-1], trained)
    extraction = extraction_steps(blueprint, trained)
    return [*before, *extraction, *after_extraction(trained, extraction), opened, *gating, *decide]
