"""An arm that cannot run is refused by name, with what to do instead."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pipelines.definition.feasibility import InfeasibleError, check_feasible, findings
from pipelines.workload import Workload, read_workload

WORKLOAD = read_workload(Path(__file__).parent / "topics.toml")
TODAY = datetime.date(2026, 11, 20)


def workload(**changes: object) -> Workload:
    """The small workload with another candidate."""
    arm = WORKLOAD.arms["compiled"].model_copy(update={"precision": "fp32", **changes})
    return WORKLOAD.model_copy(update={"arms": {**WORKLOAD.arms, "compiled": arm}})


def refused(declared: Workload, *, region: str | None = None, local: bool = False) -> list[str]:
    with pytest.raises(InfeasibleError) as caught:
        check_feasible(declared, region=region, local=local)
    return str(caught.value).splitlines()


def test_arms_of_eager_and_inductor_are_fine_everywhere() -> None:
    check_feasible(WORKLOAD, region="eu-west-3")
    check_feasible(WORKLOAD, local=True)
    assert findings(WORKLOAD, today=TODAY, region="eu-west-3") == ()


@pytest.mark.parametrize(
    ("compiler", "title"),
    [("training-compiler", "SageMaker Training Compiler"), ("neuron", "AWS Neuron")],
)
def test_what_runs_in_aws_s_images_only_is_refused_on_this_machine(
    compiler: str, title: str
) -> None:
    assert refused(workload(compiler=compiler), local=True) == [
        f"arms.compiled.compiler: {title} runs in AWS's images on AWS's instances only; "
        "submit the workload to SageMaker, or take another compiler for local runs"
    ]


def test_an_instance_that_the_compiler_does_not_know_is_refused_under_its_key() -> None:
    assert refused(workload(compiler="training-compiler", instance_type="ml.p5.48xlarge")) == [
        "arms.compiled.instance_type: SageMaker Training Compiler does not support "
        "ml.p5.48xlarge: AWS made it for the classes p3, p3dn, g4dn, p4d, g5; "
        'take an instance of one of them, or compiler = "inductor"'
    ]
