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
from compilegate.job.evidence import Evidence, Scalar
from compilegate.job.machine.accelerators import (
    HOST,
    Accelerators,
    Machine,
    describing,
    place_of,
    read_description,
)
from compilegate.job.machine.environment import describe_machine
from compilegate.job.names import EVALUATION_PLACES

INSTANCES = (*instances(), "ml.m5.xlarge", "ml.c6i.8xlarge")
PRECISIONS = ("fp32", "bf16", "fp16")
XLA_ON = {"cpu": "CPU", "gpu": "GPU", "neuron": "NEURON"}
"""What XLA calls its device on each kind of machine."""


@dataclasses.dataclass(frozen=True)
class Launched:
    """How the processes of an arm are started: by a distribution of its compiler's."""

    instance_type: str
    described: bool
    """Whether it is a rehearsal on this machine, in a described one."""
    world_size: int
    precision: str

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
    _have_threads(compiler, launched)
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


def _have_threads(compiler: str, launched: Launched) -> None:
    """SageMaker's launcher for XLA leaves each process all threads; torchrun shares them out."""
    shares = launched.world_size > 1 and "torchrun" in compilers()[compiler].distributions
    torch.set_num_threads(1 if shares or processor_of(launched.instance_type) == "cpu" else 2)


@pytest.fixture(autouse=True, scope="module")
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def undeclared(one: Evidence, other: Evidence, *declarations: ArmDeclaration) -> list[str]:
    found = find_confounds([one], [other], declarations, 0.05)
    return [each.name for each in found if not each.intended]


def declared(compiler: str, launched: Launched) -> ArmDeclaration:
    return ArmDeclaration(
        compiler=compiler,
        batch_size=8,
        learning_rate=1e-3,
        precision=launched.precision,
        world_size=launched.world_size,
        instance_type=launched.instance_type,
    )


machines = st.builds(
    Launched,
    instance_type=st.sampled_from(INSTANCES),
    described=st.booleans(),
    world_size=st.sampled_from((1, 4, 8)),
    precision=st.sampled_from(PRECISIONS),
)
arms = st.sampled_from(tuple(declarations()))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(machines, arms, arms)
def test_arms_that_differ_in_the_compiler_alone_have_no_undeclared_confound(
    launched: Launched, baseline: str, candidate: str
) -> None:
    assume(all(runs_on(each, launched.instance_type) for each in (baseline, candidate)))
    keeps = any(declarations()[each].keeps_accelerator for each in (baseline, candidate))
    evaluate_on = EVALUATION_PLACES[1 if keeps else 0]
    one, other = (honest(each, launched, evaluate_on) for each in (baseline, candidate))
    assert undeclared(one, other, declared(baseline, launched), declared(candidate, launched)) == []


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(machines, machines, arms)
def test_evidence_from_two_machines_always_has_an_undeclared_confound(
    here: Launched, there: Launched, compiler: str
) -> None:
    """The workload declares one instance type, and the jobs ran on two."""
    there = dataclasses.replace(
        there, precision=here.precision, world_size=here.world_size, described=here.described
    )
    assume(differ(here, there))
    one, other = (honest(compiler, each, EVALUATION_PLACES[0]) for each in (here, there))
    assert undeclared(one, other, declared(compiler, here), declared(compiler, here)) != []


def differ(here: Launched, there: Launched) -> bool:
    """Two descriptions may be of the same accelerators; two instance types are two machines."""
    if here.described:
        return here.machine.accelerators != there.machine.accelerators
    return here.instance_type != there.instance_type


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(machines, arms)
def test_a_rehearsal_never_passes_for_the_machine_itself(launched: Launched, arm: str) -> None:
    real, rehearsed = (
        honest(arm, dataclasses.replace(launched, described=each), EVALUATION_PLACES[0])
        for each in (False, True)
    )
    assert "described" in undeclared(real, rehearsed, *[declared(arm, launched)] * 2)


@pytest.mark.parametrize("instance_type", instances())
def test_a_description_says_all_that_the_catalog_knows(instance_type: str) -> None:
    has = accelerators_of(instance_type)
    assert isinstance(has, Accelerators)
    assert read_description(describing(has)).accelerators == has


def test_the_host_is_evaluated_on_by_declaration_and_a_difference_is_a_confound() -> None:
    launched = Launched("ml.p3.2xlarge", False, 1, "fp32")
    one, other = (honest("eager", launched, each) for each in EVALUATION_PLACES)
    both = declared("eager", launched)
    assert undeclared(one, other, both, both) == ["evaluated_on"]


def test_a_compiler_that_fell_back_to_the_host_is_a_confound_beside_one_that_did_not() -> None:
    launched = Launched("ml.p3.2xlarge", False, 1, "fp32")
    both = declared("training-compiler", launched)
    sound = honest("training-compiler", launched, "host")
    fallen = place_of("xla", launched.machine, hardware="CPU")
    recipe = {**sound.recipe, "device": fallen}
    assert undeclared(sound, dataclasses.replace(sound, recipe=recipe), both, both) == ["device"]
