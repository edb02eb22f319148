"""The steps of a workload with a posture: one definition, whatever trains.

    Posture (Lambda)                 which arms train, decided from the record; none where the model
                                     that is registered would be registered again
    Prepare                          as in a comparison of arms
    All-arms (Condition)             Train-ARM-SEED, Gate, Settle, Package, Register, Keep, Note
    Alone-ARM (Condition), each arm  Train-ARM-alone, Gate-ARM-alone, Settle-ARM, Package-ARM, ...

The conditions stand side by side, and each branch goes to its end by itself: the service takes
neither a condition on the branch of another nor a step after two branches. So a step of two
branches has two names. Its request is the same in both: neither the posture nor the branch is in
anything that the step cache looks at.

`Settle` moves the record by what the gate found, and returns which model is registered. No
condition inside a branch could register nothing, so whether anything is new is decided before all
branches: by what the trainings and the verdict depend on, which `Note` records after a
registration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from compilegate.document.expressions import (
    Expression,
    execution_variable,
    join,
    json_get,
    parameter,
    step_property,
)
from compilegate.document.model import Dependency, OutputParameter, PropertyFile, Step
from compilegate.document.step_types import LAMBDA
from compilegate.job.contract import BASELINE_ARM, POSTURE_FILE
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.images import GATE, image_of
from compilegate.pipelines.requests import Blueprint, Uri
from compilegate.pipelines.steps.gate import VERDICT, gate_steps, keep_step, open_step, registration
from compilegate.pipelines.steps.processing import prepared_data
from compilegate.pipelines.steps.registration import (
    branch,
    inference_specification,
    package_step,
    register_step,
    serving_in_words,
)
from compilegate.pipelines.steps.training import (
    Replicate,
    evidence_uri,
    job_name,
    model_uri,
    training_step,
    training_steps,
)
from compilegate.posture import contract
from compilegate.workload.parameters import ATTEMPT, DATA, INSTANCE_TYPE, MAX_RUNTIME

STEP = "Posture"
OBSERVED = PropertyFile(name="Posture", output_name=VERDICT.output_name, file_path=POSTURE_FILE)


def posture_steps(blueprint: Blueprint) -> list[Step]:
    """Every step, in the order in which they can run."""
    prepare, data = prepared_data(blueprint)
    opened = open_step(blueprint)
    trained = {
        replicate: _tagged(step) for replicate, step in training_steps(blueprint, data).items()
    }
    *gathering, gate = gate_steps(blueprint, trained, opened)
    end = _BranchEnd(blueprint, _observing(gate), trained)
    together = end.branch("All-arms", contract.ALL, [*trained.values(), *gathering])
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
    arguments = {
        "policy": json.dumps(asdict(workload.posture.policy), sort_keys=True),
        "candidates": ",".join(workload.candidates),
        "fingerprint": json.dumps(fingerprint(blueprint), sort_keys=True),
        **_inputs(blueprint),
    }
    step = _function_step(blueprint, STEP, contract.START, arguments)
    return replace(step, description="Which arms train, from the workload's record")


_OUTPUTS = {
    contract.START: (
        contract.ARMS,
        contract.REGISTERS,
        contract.POSTURE,
        contract.WATCHED,
        contract.REASON,
    ),
    contract.SETTLE: (contract.ARM, *contract.OF_ARM, contract.REASON),
    contract.REGISTERED: (contract.REASON,),
}
"""What the function returns, by what it is called for."""


def _function_step(blueprint: Blueprint, name: str, act: str, arguments: Mapping[str, Uri]) -> Step:
    """A call of the function that keeps the workload's record."""
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
        output_parameters=tuple(OutputParameter(output, "String") for output in _OUTPUTS[act]),
    )


def _output(step: str, name: str) -> Expression:
    """What a function's step returns by that name."""
    return step_property(step, f"OutputParameters['{name}']")


def fingerprint(blueprint: Blueprint) -> dict[str, str]:
    """The conditions of evidence: executions under other conditions tell nothing of these.

    An image's tag is the digest of its folder, in which the versions of its libraries are pinned.
    It is not hashed again, since CloudFormation fills it in after the definition is compiled.
    """
    workload, deployment = blueprint.workload, blueprint.deployment
    arms = workload.arms.values()
    return {
        "code": object_name(blueprint.sources.training_code),
        "data": _digest(repr(workload.data)),
        "image": " ".join(dict.fromkeys(image_of(deployment, arm) for arm in arms)),
        "instance": _digest([arm.instance_type or workload.compute.instance_type for arm in arms]),
        "recipe": _digest(repr(dict(workload.arms))),
    }


def _inputs(blueprint: Blueprint) -> dict[str, Uri]:
    """All that trainings and verdict depend on, and how long trainings stay in the cache; nothing
    where each execution trains anew. The status of a model is no part of it."""
    cache, sources = blueprint.training_cache, blueprint.sources
    if cache is None or cache.expire_after is None:
        return {}
    compiled = [
        *fingerprint(blueprint).values(),
        *map(object_name, (sources.training_archive, sources.gate_code, sources.experiment)),
        blueprint.deployment.images[GATE],
        registration(blueprint),
    ]
    given = [parameter(name) for name in (DATA, INSTANCE_TYPE, MAX_RUNTIME, ATTEMPT)]
    return {
        contract.INPUTS: join(" ", [*compiled, *given]),
        contract.CACHE_SECONDS: f"{cache.expire_after.total_seconds():.0f}",
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _alone(blueprint: Blueprint, data: Uri, opened: Step, arm: str) -> list[Step]:
    """The branch in which one arm trains, with the first seed."""
    seed = blueprint.workload.seeds[0]
    step = replace(training_step(blueprint, data, arm, seed), name=f"Train-{arm}-alone")
    trained = {(arm, seed): _tagged(step)}
    (gate,) = gate_steps(blueprint, trained, opened)
    gate = replace(_observing(gate, "--alone", arm), name=f"Gate-{arm}-alone")
    end = _BranchEnd(blueprint, gate, trained, suffix=f"-{arm}")
    return end.branch(f"Alone-{arm}", arm, list(trained.values()))


def _tagged(step: Step) -> Step:
    """With the posture among the job's tags, which the step cache does not look at."""
    tags = [
        {"Key": f"compilegate:{name}", "Value": _output(STEP, name)}
        for name in (contract.POSTURE, contract.WATCHED)
    ]
    return replace(step, arguments={**step.arguments, "Tags": [*step.arguments["Tags"], *tags]})


def _observing(gate: Step, *options: str) -> Step:
    """The gate's step, which also writes what it observed for the record."""
    program = gate.arguments["AppSpecification"]
    arguments = [*program["ContainerArguments"], "--posture", *options]
    request = {
        **gate.arguments,
        "AppSpecification": {**program, "ContainerArguments": arguments},
    }
    return replace(_tagged(replace(gate, arguments=request)), property_files=(VERDICT, OBSERVED))


@dataclass(frozen=True)
class _BranchEnd:
    """The end of a branch: the gate, the record's move, and the registration of what it names."""

    blueprint: Blueprint
    gate: Step
    trained: Mapping[Replicate, Step]
    suffix: str = ""
    """What the names of the branch's steps end with."""

    def branch(self, name: str, arms: str, trained: Sequence[Step]) -> list[Step]:
        """The condition that these arms train, and all steps of the branch."""
        condition = {
            "Type": "Equals",
            "LeftValue": _output(STEP, contract.ARMS),
            "RightValue": arms,
        }
        settle = self._settle()
        register = self._register(settle)
        note = self._note(arms, register[-1])
        return branch(name, condition, [*trained, self.gate, settle, *register, *note])

    def _settle(self) -> Step:
        workload = self.blueprint.workload
        about: dict[str, Uri] = {}
        for (arm, seed), step in self.trained.items():
            if seed != workload.seeds[0]:
                continue
            values = (
                model_uri(step),
                image_of(self.blueprint.deployment, workload.arms[arm]),
                workload.arms[arm].compiler,
                job_name(step),
                workload.kind.model_in_words(workload, arm, seed),
                evidence_uri(step),
            )
            for name, value in zip(contract.OF_ARM, values, strict=True):
                about[f"{name}--{arm}"] = value
        arguments = {"observed": json_get(self.gate.name, OBSERVED.name, "observed"), **about}
        step = _function_step(self.blueprint, f"Settle{self.suffix}", contract.SETTLE, arguments)
        description = "The record moves by what the gate found; which model is registered"
        return replace(step, description=description)

    def _register(self, settle: Step) -> list[Step]:
        """Registers the model that settling names, once it lies where it stays."""

        def settled(name: str) -> Expression:
            return _output(settle.name, name)

        replicate, step = next(iter(self.trained.items()))
        package = package_step(
            self.blueprint, f"Package{self.suffix}", settled("model"), settled("job")
        )
        plain = register_step(self.blueprint, self.gate, step, package, replicate)
        words = [settled("words"), serving_in_words(self.blueprint)]
        request = {
            **plain.arguments,
            "ModelPackageDescription": join(" ", words),
            "InferenceSpecification": inference_specification(
                self.blueprint, package, settled("image")
            ),
            "CustomerMetadataProperties": {
                **plain.arguments["CustomerMetadataProperties"],
                "arm": settled(contract.ARM),
                "compiler": settled("compiler"),
                "training_job": settled("job"),
                "posture": _output(STEP, contract.POSTURE),
                "watched": _output(STEP, contract.WATCHED),
            },
        }
        register = replace(plain, name=f"Register{self.suffix}", arguments=request)
        keep = keep_step(self.blueprint, f"Keep{self.suffix}", settled("evidence"), register)
        return [package, register, keep]

    def _note(self, arms: str, after: Step) -> list[Step]:
        """Notes in the record that these arms registered a model, and from what."""
        inputs = _inputs(self.blueprint)
        if not inputs:
            return []
        arguments = {
            contract.ARMS: arms,
            contract.REGISTERS: _output(STEP, contract.REGISTERS),
            contract.INPUTS: inputs[contract.INPUTS],
        }
        note = _function_step(self.blueprint, f"Note{self.suffix}", contract.REGISTERED, arguments)
        description = "What the registered model came from, for the next execution's start"
        return [replace(note, description=description, depends_on=(Dependency(after.name),))]
