"""What evidence says of machines, for every compiler on every instance type of the catalog.

Two laws. Honest evidence of two arms that differ in the compiler alone has no undeclared confound;
evidence of two machines always has one. A compiler that traces whole steps keeps the accelerator to
itself, and once described the host that torch was left with: then no such candidate could pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compilegate.catalog.compilers import compilers
from compilegate.catalog.instances import accelerators_of, instances, processor_of
from compilegate.gate.confounds import find_confounds
from compilegate.gate.settings import ArmDeclaration
from compilegate.job.compilers import declarations
from compilegate.job.contract import EVALUATION_PLACES
from compilegate.job.evidence import Evidence, Scalar
from compilegate.job.machine.accelerators import (
    HOST,
    Machine,
    describing,
    place_of,
    read_description,
)
from compilegate.job.machine.environment import describe_machine

pytestmark = pytest.mark.slow

INSTANCES = (*instances(), "ml.m5.xlarge", "ml.c6i.8xlarge")
XLA_ON = {"cpu": "CPU", "gpu": "GPU", "neuron": "NEURON"}
"""What XLA calls its device on each kind of machine."""


@dataclasses.dataclass(frozen=True)
class Launched:
    """How the processes of an arm are started: by a distribution of its compiler's."""

    instance_type: str
    described: bool = False
    """Whether it is a rehearsal on this machine, in a described one."""
    world_size: int = 1
    precision: str = "fp32"

    @property
    def machine(self) -> Machine:
        has = accelerators_of(self.instance_type)
        return read_description(describing(has)) if self.described else Machine(has)

    @property
    def variables(self) -> Mapping[str, str]:
        """Those of SageMaker; a local run's ARN lies in no region."""
        region = "local" if self.described else "us-east-1"
        return {
            "SM_CURRENT_INSTANCE_TYPE": self.instance_type,
            "TRAINING_JOB_ARN": f"arn:aws:sagemaker:{region}:123456789012:training-job/one",
        }


def runs_on(compiler: str, instance_type: str) -> bool:
    return processor_of(instance_type) in compilers()[compiler].processors


def place(compiler: str, launched: Launched) -> str:
    """Where its steps compute, by what torch and XLA say there."""
    computes_on = declarations()[compiler].computes_on
    processor = processor_of(launched.instance_type)
    if "step_graphs" in [option.name for option in declarations()[compiler].options]:
        hardware = "CPU" if launched.described else XLA_ON[processor]
        return place_of("xla", launched.machine, hardware=hardware, computes_on=computes_on)
    torchs_own = "cuda" if processor == "gpu" and not launched.described else "cpu"
    return place_of(torchs_own, launched.machine, computes_on=computes_on)


def honest(compiler: str, launched: Launched, evaluate_on: str) -> Evidence:
    """What a job writes of itself and of its machine."""
    computes = place(compiler, launched)
    # SageMaker's launcher for XLA leaves each process all threads; torchrun shares them out.
    shares = launched.world_size > 1 and "torchrun" in compilers()[compiler].distributions
    torch.set_num_threads(1 if shares or processor_of(launched.instance_type) == "cpu" else 2)
    recipe: dict[str, Scalar] = {
        "batch_size": 8,
        "precision": launched.precision,
        "world_size": launched.world_size,
        "device": computes,
        "evaluated_on": EVALUATION_PLACES[1] if computes == HOST else evaluate_on,
        "evaluated_in": "fp32",
    }
    return Evidence(
        job=f"{compiler}-1",
        arm=compiler,
        seed=1,
        recipe=recipe,
        compiler=None,
        speed=None,
        environment=describe_machine(launched.machine, computes, launched.variables),
    )


@pytest.fixture(autouse=True, scope="module")
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def undeclared(one: Evidence, other: Evidence, launched: Launched) -> list[str]:
    """The confounds of two arms whose declarations differ in the compiler alone."""
    declared = [
        ArmDeclaration(
            compiler=each.arm,
            batch_size=8,
            learning_rate=1e-3,
            precision=launched.precision,
            world_size=launched.world_size,
            instance_type=launched.instance_type,
        )
        for each in (one, other)
    ]
    found = find_confounds([one], [other], declared, 0.05)
    return [each.name for each in found if not each.intended]


machines = st.builds(
    Launched,
    instance_type=st.sampled_from(INSTANCES),
    described=st.booleans(),
    world_size=st.sampled_from((1, 4, 8)),
    precision=st.sampled_from(("fp32", "bf16", "fp16")),
)
arms = st.sampled_from(tuple(declarations()))


@settings(max_examples=150, deadline=None)
@given(machines, arms, arms)
def test_arms_that_differ_in_the_compiler_alone_have_no_undeclared_confound(
    launched: Launched, baseline: str, candidate: str
) -> None:
    assume(all(runs_on(each, launched.instance_type) for each in (baseline, candidate)))
    keeps = any(declarations()[each].keeps_accelerator for each in (baseline, candidate))
    evaluate_on = EVALUATION_PLACES[1 if keeps else 0]
    one, other = (honest(each, launched, evaluate_on) for each in (baseline, candidate))
    assert undeclared(one, other, launched) == []


@settings(max_examples=150, deadline=None)
@given(machines, st.sampled_from(INSTANCES), arms)
def test_evidence_from_two_machines_always_has_an_undeclared_confound(
    here: Launched, other: str, compiler: str
) -> None:
    """The workload declares one instance type, and the jobs ran on two."""
    there = dataclasses.replace(here, instance_type=other)
    # Two descriptions may be of the same accelerators; two instance types are two machines.
    alike = here.described and here.machine.accelerators == there.machine.accelerators
    assume(here != there and not alike)
    jobs = (honest(compiler, each, EVALUATION_PLACES[0]) for each in (here, there))
    assert undeclared(*jobs, here) != []


@settings(max_examples=60, deadline=None)
@given(machines, arms)
def test_a_rehearsal_never_passes_for_the_machine_itself(launched: Launched, arm: str) -> None:
    jobs = (
        honest(arm, dataclasses.replace(launched, described=each), EVALUATION_PLACES[0])
        for each in (False, True)
    )
    assert "described" in undeclared(*jobs, launched)


def test_an_evaluation_on_the_host_or_a_fall_back_to_it_is_a_confound() -> None:
    launched = Launched("ml.p3.2xlarge")
    jobs = (honest("eager", launched, each) for each in EVALUATION_PLACES)
    assert undeclared(*jobs, launched) == ["evaluated_on"]
    sound = honest("training-compiler", launched, "host")
    fallen = place_of("xla", launched.machine, hardware="CPU")
    other = dataclasses.replace(sound, recipe={**sound.recipe, "device": fallen})
    assert undeclared(sound, other, launched) == ["device"]
