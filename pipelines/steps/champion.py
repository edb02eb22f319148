"""The steps of a workload that has a champion: train, score both models, gate, register.

The champion is the model that was approved last. It reaches an execution without a question to the
registry: what is approved is copied to one place of the workload's own, `registered/model/`, and
the next execution reads `registered/`. Whoever approves copies it: `compilegate models approve`
here, the releaser in an account; and this definition, where models are registered as approved. So
that the place holds something before any model is approved, the first step leaves a note there. All
of it works in a local run as it does on SageMaker.

    Open-champion                   a note in registered/note/
    Prepare, Train-challenger-SEED  as in a comparison of arms
    Evaluate-champion               the registered model, scored on today's validation data
    Gate                            both models' examples in, verdict out
    Decide-challenger               Package-challenger, Register-challenger, then Keep-challenger
    Decide-none                     Fail, unless one of the two models was decided on
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compilegate.document.expressions import parameter
from compilegate.document.model import Dependency, Step
from compilegate.job.names import CHALLENGER_ARM, CHAMPION_ARM, CHAMPION_SEED
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import gate_steps
from compilegate.pipelines.steps.packaging import packaged_uri
from compilegate.pipelines.steps.preparation import prepared_data
from compilegate.pipelines.steps.processing import INPUT, OUTPUT, Uri, output_uri, processing_step
from compilegate.pipelines.steps.registration import (
    decide_arm,
    decide_none,
    fail_step,
    register_steps,
)
from compilegate.pipelines.steps.training import training_step
from compilegate.workload.kinds.own_program import module_name
from compilegate.workload.parameters import APPROVAL

NOTE = "note"
KEPT = "model"


def succession_steps(blueprint: Blueprint) -> list[Step]:
    """Every step, in the order in which they can run."""
    prepare, data = prepared_data(blueprint)
    trained = {
        seed: training_step(blueprint, data, arm_name=CHALLENGER_ARM, seed=seed)
        for seed in blueprint.workload.seeds
    }
    note = _note_step(blueprint)
    evaluate = replace(_evaluate_step(blueprint, data), depends_on=(Dependency(note.name),))
    gating = gate_steps(
        blueprint,
        {(CHALLENGER_ARM, seed): step for seed, step in trained.items()},
        {f"{CHAMPION_ARM}--{CHAMPION_SEED}": output_uri(evaluate)},
    )
    decide = _decide_steps(blueprint, gating[-1], trained)
    return [note, *prepare, *trained.values(), evaluate, *gating, *decide]


def registered_uri(blueprint: Blueprint, *parts: str) -> str:
    """The workload's own place for the model that was approved last."""
    deployment, workload = blueprint.deployment, blueprint.workload
    return deployment.uri("workloads", workload.name, "registered", *parts)


def _note_step(blueprint: Blueprint) -> Step:
    return processing_step(
        blueprint,
        "Open-champion",
        description="So that there is something to read before any model is registered",
        image="gate",
        module="compilegate.pipelines.programs.champion",
        code=blueprint.sources.gate_code,
        arguments=["open", f"{OUTPUT}/{NOTE}"],
        inputs={},
        output=NOTE,
        kept_at=registered_uri(blueprint, NOTE),
        cached=True,
    )


def _evaluate_step(blueprint: Blueprint, data: Uri) -> Step:
    """Never cached: what lies at the same place may be another model by then."""
    kind = blueprint.workload.kind
    return processing_step(
        blueprint,
        "Evaluate-champion",
        description="The model approved last on today's validation data",
        image=kind.processing_image[1],
        module="compilegate.job.launch.champion",
        code=blueprint.sources.training_code,
        arguments=[
            module_name(kind.scripts["champion.evaluate"]),
            f"{INPUT}/registered",
            f"{INPUT}/data",
            f"{OUTPUT}/{CHAMPION_ARM}",
        ],
        inputs={"registered": registered_uri(blueprint), "data": data},
        output=CHAMPION_ARM,
    )


def _decide_steps(blueprint: Blueprint, gate: Step, trained: Mapping[int, Step]) -> list[Step]:
    """Side by side, since the service takes no condition on the branch of another. Where the
    champion was decided on, nothing is done: the registered model stands."""
    seed = blueprint.workload.seeds[0]
    package, register = register_steps(
        blueprint, gate, trained[seed], arm_name=CHALLENGER_ARM, seed=seed
    )
    keep = replace(_keep_step(blueprint, package), depends_on=(Dependency(register.name),))
    nothing = fail_step(
        "Fail-no-sound-model",
        "The new model is not sound and none was approved before, so none was registered; "
        "the reasons are in",
        gate,
    )
    return [
        *decide_arm(CHALLENGER_ARM, [package, register, keep]),
        *decide_none([CHALLENGER_ARM, CHAMPION_ARM], nothing),
    ]


def _keep_step(blueprint: Blueprint, package: Step) -> Step:
    """Copies the model that was just registered to where the next execution looks for it, if it was
    registered as approved: the archive that an approval would copy."""
    return processing_step(
        blueprint,
        f"Keep-{CHALLENGER_ARM}",
        description="The registered model, for the next execution to be compared with",
        image="gate",
        module="compilegate.pipelines.programs.champion",
        code=blueprint.sources.gate_code,
        arguments=[
            "keep",
            f"{INPUT}/{KEPT}",
            f"{OUTPUT}/{KEPT}",
            "--approval",
            parameter(APPROVAL),
        ],
        inputs={KEPT: packaged_uri(package)},
        output=KEPT,
        kept_at=registered_uri(blueprint, KEPT),
    )
