"""The steps of a workload that has a champion: train, score both models, gate, register.

The champion is the model that was registered last. It reaches an execution without a question to
the registry: what is registered is copied to one place of the workload's own, `registered/model/`,
and the next execution reads `registered/`. So that this holds something before any model is
registered, the first step leaves a note there. All of it works in a local run as it does on
SageMaker.

    Open-champion                   a note in registered/note/
    Prepare, Train-challenger-SEED  as in a comparison of arms
    Evaluate-champion               the registered model, scored on today's validation data
    Gate                            both models' examples in, verdict out
    Decide-challenger               Register-challenger, then Keep-challenger
    Decide-none                     Fail, unless one of the two models was decided on
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagemaker.core.workflow.functions import Join
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.steps import Step, StepTypeEnum

from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.requests.processing import (
    INPUT,
    OUTPUT,
    Uri,
    output_uri,
    processing_request,
)
from compilegate.pipelines.requests.retries import job_retries
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import STEP, VERDICT, expected_job, verdict_uri
from compilegate.pipelines.steps.own_program import module_name, prepare_step
from compilegate.pipelines.steps.registration import decide_none_step, decide_step, register_step
from compilegate.pipelines.steps.request_step import RequestStep
from compilegate.pipelines.steps.training import evidence_uri, model_uri, training_step
from compilegate.workload import Succession
from compilegate.workload.program import CHALLENGER, CHAMPION

EVALUATED = "champion"
NOTE = "note"
KEPT = "model"


def succession_steps(blueprint: Blueprint, kind: Succession) -> list[Step]:
    """Every step, in the order in which they can run."""
    prepare = prepare_step(blueprint, kind.program)
    data = blueprint.parameters.data if prepare is None else output_uri(prepare)
    trained = {
        seed: training_step(blueprint, data, arm_name=CHALLENGER, seed=seed)
        for seed in blueprint.workload.seeds
    }
    note = _note_step(blueprint)
    evaluate = _evaluate_step(blueprint, kind, data)
    evaluate.add_depends_on([note])
    gate = _gate_step(blueprint, evaluate, trained)
    before = [note] if prepare is None else [note, prepare]
    return [*before, *trained.values(), evaluate, gate, *_decide_steps(blueprint, gate, trained)]


def registered_uri(blueprint: Blueprint, *parts: str) -> str:
    """The workload's own place for the model that was registered last."""
    deployment, workload = blueprint.deployment, blueprint.workload
    return deployment.uri("workloads", workload.name, "registered", *parts)


def _note_step(blueprint: Blueprint) -> RequestStep:
    return RequestStep(
        "Open-champion",
        StepTypeEnum.PROCESSING,
        processing_request(
            blueprint,
            image="gate",
            module="compilegate.pipelines.programs.champion",
            code=blueprint.sources.gate_code,
            arguments=["open", f"{OUTPUT}/{NOTE}"],
            inputs={},
            output=NOTE,
            kept_at=registered_uri(blueprint, NOTE),
        ),
        cache=blueprint.cache,
        retries=job_retries(blueprint.workload.compute),
        description="So that there is something to read before any model is registered",
    )


def _evaluate_step(blueprint: Blueprint, kind: Succession, data: Uri) -> RequestStep:
    """Never cached: what lies at the same place may be another model by then."""
    return RequestStep(
        "Evaluate-champion",
        StepTypeEnum.PROCESSING,
        processing_request(
            blueprint,
            image=kind.program.image,
            module="compilegate.job.launch.champion",
            code=blueprint.sources.training_code,
            arguments=[
                module_name(kind.champion.evaluate),
                f"{INPUT}/registered",
                f"{INPUT}/data",
                f"{OUTPUT}/{EVALUATED}",
            ],
            inputs={"registered": registered_uri(blueprint), "data": data},
            output=EVALUATED,
        ),
        retries=job_retries(blueprint.workload.compute),
        description="The last registered model on today's validation data",
    )


def _gate_step(
    blueprint: Blueprint, evaluate: RequestStep, trained: Mapping[int, RequestStep]
) -> RequestStep:
    experiment = object_name(blueprint.sources.experiment)
    evidence = {f"evidence/{CHALLENGER}--{seed}": evidence_uri(it) for seed, it in trained.items()}
    arguments: list[Any] = ["judge", "--experiment", f"{INPUT}/experiment/{experiment}"]
    arguments += ["--evidence", f"{INPUT}/evidence", "--champion", f"{INPUT}/{EVALUATED}"]
    arguments += ["--output", f"{OUTPUT}/{VERDICT.output_name}"]
    arguments += [expected_job(CHALLENGER, seed, step) for seed, step in trained.items()]
    return RequestStep(
        STEP,
        StepTypeEnum.PROCESSING,
        processing_request(
            blueprint,
            image="gate",
            module="compilegate.pipelines.programs.champion",
            code=blueprint.sources.gate_code,
            arguments=arguments,
            inputs={
                "experiment": blueprint.sources.experiment,
                EVALUATED: output_uri(evaluate),
                **evidence,
            },
            output=VERDICT.output_name,
        ),
        retries=job_retries(blueprint.workload.compute),
        property_files=[VERDICT],
        description="The new model against the last registered one",
    )


def _decide_steps(
    blueprint: Blueprint, gate: RequestStep, trained: Mapping[int, RequestStep]
) -> list[Step]:
    """Side by side, since the service takes no condition on the branch of another. Where the
    champion was decided on, nothing is done: the registered model stands."""
    seed = blueprint.workload.seeds[0]
    register = register_step(blueprint, gate, trained[seed], arm_name=CHALLENGER, seed=seed)
    keep = _keep_step(blueprint, trained[seed])
    keep.add_depends_on([register])
    nothing = FailStep(
        "Fail-no-sound-model",
        error_message=Join(
            on=" ",
            values=[
                "The new model is not sound and none was registered before, so none was",
                "registered; the reasons are in",
                verdict_uri(gate),
            ],
        ),
    )
    return [
        decide_step(CHALLENGER, [register, keep]),
        decide_none_step([CHALLENGER, CHAMPION], nothing),
    ]


def _keep_step(blueprint: Blueprint, trained: RequestStep) -> RequestStep:
    """Copies the model that was just registered to where the next execution looks for it."""
    return RequestStep(
        f"Keep-{CHALLENGER}",
        StepTypeEnum.PROCESSING,
        processing_request(
            blueprint,
            image="gate",
            module="compilegate.pipelines.programs.champion",
            code=blueprint.sources.gate_code,
            arguments=["keep", f"{INPUT}/{KEPT}", f"{OUTPUT}/{KEPT}"],
            inputs={KEPT: model_uri(trained)},
            output=KEPT,
            kept_at=registered_uri(blueprint, KEPT),
        ),
        retries=job_retries(blueprint.workload.compute),
        description="The registered model, for the next execution to be compared with",
    )
