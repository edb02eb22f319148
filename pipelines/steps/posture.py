"""The steps of a workload with a posture: one definition, whatever trains.

    Posture (Lambda)                 which arms train, decided from the record; none where the model
                                     that is registered would be registered again
    Prepare                          as in a comparison of arms
    All-arms (Condition)             Train-ARM-SEED, Gate, Settle, Package, Register, Keep, Note
    Alone-ARM (Condition), each arm  Train-ARM-alone, Gate-ARM-alone, Settle-ARM, Package-ARM, ...

The conditions stand side by side, and each branch goes to its end by itself: the service takes
neither a condition on the branch of another nor a step after two branches. So a step that stands
in two of them stands there under two names. Its request is the same in both: neither the posture
nor the branch is in anything that the step cache looks at.

Settling moves the record by what the gate found, and says which model is registered. Inside a
branch no condition could register nothing, so whether anything is new is asked before all branches:
by what the trainings and the verdict depend on, which is noted once a model is registered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from compilegate.document.expressions import (
    Expression,
    execution_variable,
    join,
    json_get,
    parameter,
    step_property,
)
from compilegate.document.model import Branch, Dependency, OutputParameter, PropertyFile, Step
from compilegate.document.step_types import CONDITION, LAMBDA, PROCESSING, TRAINING
from compilegate.job.names import BASELINE_ARM, POSTURE_FILE
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.requests.images import GATE, image_of
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import VERDICT, Replicate, gate_steps
from compilegate.pipelines.steps.packaging import (
    inference_specification,
    package_step,
    serving_in_words,
)
from compilegate.pipelines.steps.preparation import prepared_data
from compilegate.pipelines.steps.processing import Uri
from compilegate.pipelines.steps.registered import keep_step, open_step, registration
from compilegate.pipelines.steps.registration import register_step
from compilegate.pipelines.steps.training import evidence_uri, model_uri, training_step
from compilegate.posture import contract
from compilegate.workload.parameters import ATTEMPT, DATA, INSTANCE_TYPE, MAX_RUNTIME

STEP = "Posture"
OBSERVED = PropertyFile(name="Posture", output_name=VERDICT.output_name, file_path=POSTURE_FILE)
_TEXT = "String"


def posture_steps(blueprint: Blueprint) -> list[Step]:
    """Every step, in the order in which they can run."""
    prepare, data = prepared_data(blueprint)
    opened = open_step(blueprint)
    together = _together(blueprint, data, opened)
    alone = [
        step
        for arm in (BASELINE_ARM, *blueprint.workload.candidates)
        for step in _alone(blueprint, data, opened, arm)
    ]
    return [_start(blueprint), *prepare, opened, *together, *alone]


def _start(blueprint: Blueprint) -> Step:
    workload = blueprint.workload
    if workload.posture is None:
        raise ValueError(f"{workload.name} has no posture")
    return _function_step(
        blueprint,
        STEP,
        description="Which arms train, from the workload's record",
        act=contract.START,
        arguments={
            "policy": json.dumps(asdict(workload.posture.policy), sort_keys=True),
            "candidates": ",".join(workload.candidates),
            "fingerprint": json.dumps(fingerprint(blueprint), sort_keys=True),
            **_inputs(blueprint),
        },
        outputs=(
            contract.ARMS,
            contract.REGISTERS,
            contract.POSTURE,
            contract.WATCHED,
            contract.REASON,
        ),
    )


def _function_step(
    blueprint: Blueprint,
    name: str,
    *,
    description: str,
    act: str,
    arguments: Mapping[str, str | Expression],
    outputs: Sequence[str],
) -> Step:
    return Step(
        name,
        LAMBDA,
        {
            contract.ACT: act,
            "workload": blueprint.workload.name,
            "execution": execution_variable("PipelineExecutionId"),
            **arguments,
        },
        function=blueprint.deployment.posture_function,
        output_parameters=tuple(OutputParameter(output, _TEXT) for output in outputs),
        description=description,
    )


def fingerprint(blueprint: Blueprint) -> dict[str, str]:
    """What evidence is gathered under. An image's tag is the digest of its folder, in which the
    versions of its libraries are pinned; it stands here as it is, since CloudFormation fills it in
    after the definition is compiled."""
    workload, deployment = blueprint.workload, blueprint.deployment
    arms = workload.arms.values()
    return {
        "code": blueprint.sources.training_code.rpartition("/")[2],
        "data": _digest(repr(workload.data)),
        "image": " ".join(dict.fromkeys(image_of(deployment, arm) for arm in arms)),
        "instance": _digest([arm.instance_type or workload.compute.instance_type for arm in arms]),
        "recipe": _digest(repr(dict(workload.arms))),
    }


def _inputs(blueprint: Blueprint) -> dict[str, str | Expression]:
    """All that trainings and verdict depend on, and how long trainings stay in the cache; nothing
    where each execution trains anew. The status of a model is no part of it."""
    cache, sources = blueprint.training_cache, blueprint.sources
    if cache is None or cache.expire_after is None:
        return {}
    known = [
        *fingerprint(blueprint).values(),
        *map(object_name, (sources.training_archive, sources.gate_code, sources.experiment)),
        blueprint.deployment.images[GATE],
        registration(blueprint),
    ]
    given = [parameter(name) for name in (DATA, INSTANCE_TYPE, MAX_RUNTIME, ATTEMPT)]
    return {
        contract.INPUTS: join(" ", [*known, *given]),
        contract.CACHE_SECONDS: f"{cache.expire_after.total_seconds():.0f}",
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _together(blueprint: Blueprint, data: Uri, opened: Step) -> list[Step]:
    trained = {
        (arm, seed): _tagged(training_step(blueprint, data, arm_name=arm, seed=seed))
        for seed in blueprint.workload.seeds
        for arm in blueprint.workload.arms
    }
    *gathering, gate = gate_steps(blueprint, trained, opened)
    gate = _observing(gate)
    settle = _settle(blueprint, "Settle", gate, trained)
    register = _register(blueprint, "", gate, settle, trained)
    note = _note(blueprint, "Note", contract.ALL, register[-1])
    return _branch(
        "All-arms", contract.ALL, [*trained.values(), *gathering, gate, settle, *register, *note]
    )


def _alone(blueprint: Blueprint, data: Uri, opened: Step, arm: str) -> list[Step]:
    seed = blueprint.workload.seeds[0]
    step = training_step(blueprint, data, arm_name=arm, seed=seed)
    trained = {(arm, seed): _tagged(replace(step, name=f"Train-{arm}-alone"))}
    (gate,) = gate_steps(blueprint, trained, opened)
    gate = replace(_observing(gate, "--alone", arm), name=f"Gate-{arm}-alone")
    settle = _settle(blueprint, f"Settle-{arm}", gate, trained)
    register = _register(blueprint, f"-{arm}", gate, settle, trained)
    note = _note(blueprint, f"Note-{arm}", arm, register[-1])
    return _branch(f"Alone-{arm}", arm, [*trained.values(), gate, settle, *register, *note])


def _branch(name: str, arms: str, steps: Sequence[Step]) -> list[Step]:
    asked = step_property(STEP, f"OutputParameters['{contract.ARMS}']")
    condition = {"Type": "Equals", "LeftValue": asked, "RightValue": arms}
    choice = Step(name, CONDITION, {"Conditions": [condition]})
    return [choice, *(replace(step, branch=Branch(name, True)) for step in steps)]


def _tagged(step: Step) -> Step:
    """With the posture among its tags, which the step cache does not look at."""
    tags = [
        {"Key": f"compilegate:{name}", "Value": _said(name)}
        for name in (contract.POSTURE, contract.WATCHED)
    ]
    assert step.type in {TRAINING, PROCESSING}, step.type  # noqa: S101  both have tags
    return replace(step, arguments={**step.arguments, "Tags": [*step.arguments["Tags"], *tags]})


def _said(name: str) -> Expression:
    return step_property(STEP, f"OutputParameters['{name}']")


def _observing(gate: Step, *options: str) -> Step:
    """The gate's step, which also says what it saw for the record."""
    program = gate.arguments["AppSpecification"]
    arguments = [*program["ContainerArguments"], "--posture", *options]
    request = {
        **gate.arguments,
        "AppSpecification": {**program, "ContainerArguments": arguments},
    }
    return replace(_tagged(replace(gate, arguments=request)), property_files=(VERDICT, OBSERVED))


def _settle(blueprint: Blueprint, name: str, gate: Step, trained: Mapping[Replicate, Step]) -> Step:
    workload, seed = blueprint.workload, blueprint.workload.seeds[0]
    about: dict[str, str | Expression] = {}
    for arm, its_seed in trained:
        if its_seed != seed:
            continue
        step = trained[arm, seed]
        values = (
            model_uri(step),
            image_of(blueprint.deployment, workload.arms[arm]),
            workload.arms[arm].compiler,
            step_property(step.name, "TrainingJobName"),
            workload.kind.model_in_words(workload, arm, seed),
            evidence_uri(step),
        )
        for what, value in zip(contract.OF_ARM, values, strict=True):
            about[f"{what}--{arm}"] = value
    return _function_step(
        blueprint,
        name,
        description="The record moves by what the gate found; which model is registered",
        act=contract.SETTLE,
        arguments={"observed": json_get(gate.name, OBSERVED.name, "observed"), **about},
        outputs=(contract.ARM, *contract.OF_ARM, contract.REASON),
    )


def _register(
    blueprint: Blueprint,
    ending: str,
    gate: Step,
    settle: Step,
    trained: Mapping[Replicate, Step],
) -> list[Step]:
    """Registers the model that settling names, once it lies where it stays."""

    def settled(what: str) -> Expression:
        return step_property(settle.name, f"OutputParameters['{what}']")

    (arm, seed), step = next(iter(trained.items()))
    package = package_step(
        blueprint, f"Package{ending}", model=settled("model"), job=settled("job")
    )
    plain = register_step(blueprint, gate, step, package, arm_name=arm, seed=seed)
    request = dict(plain.arguments)
    request["ModelPackageDescription"] = join(" ", [settled("words"), serving_in_words(blueprint)])
    request["InferenceSpecification"] = inference_specification(
        blueprint, package, settled("image")
    )
    request["CustomerMetadataProperties"] = {
        **request["CustomerMetadataProperties"],
        "arm": settled(contract.ARM),
        "compiler": settled("compiler"),
        "training_job": settled("job"),
        "posture": _said(contract.POSTURE),
        "watched": _said(contract.WATCHED),
    }
    register = replace(plain, name=f"Register{ending}", arguments=request)
    keep = keep_step(blueprint, f"Keep{ending}", settled("evidence"))
    return [package, register, replace(keep, depends_on=(Dependency(register.name),))]


def _note(blueprint: Blueprint, name: str, arms: str, after: Step) -> list[Step]:
    """Notes in the record that these arms registered a model, and from what."""
    inputs = _inputs(blueprint)
    if not inputs:
        return []
    noted = _function_step(
        blueprint,
        name,
        description="What the registered model came from, for the next execution's start",
        act=contract.REGISTERED,
        arguments={
            contract.ARMS: arms,
            contract.REGISTERS: _said(contract.REGISTERS),
            contract.INPUTS: inputs[contract.INPUTS],
        },
        outputs=(contract.REASON,),
    )
    return [replace(noted, depends_on=(Dependency(after.name),))]
