"""An arm that cannot run is refused by name, with what to do instead."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from compilegate.catalog.images import find_image
from compilegate.execution.status import Target
from compilegate.workload import InfeasibleError, Workload
from compilegate.workload.feasibility import check_feasible, findings
from tests.pipelines.definitions import workload
from tests.workload.settled import settled_arm

TODAY = datetime.date(2026, 11, 20)
COMPILER = {"compiler": "training-compiler", "instance_type": "ml.p3.16xlarge"}
NEWEST = find_image("pytorch-training-compiler", "1.13.1")
OLDER = find_image("pytorch-training-compiler", "1.12.0")
XGBOOST = find_image("xgboost", "3.2-0", processor="cpu")
NO_SAFETENSORS = "writes safetensors"


def arms(name: str = "topics", **changes: Any) -> Workload:
    """The workload with another candidate."""
    declared = workload(name)
    arm = settled_arm(**{"batch_size": 12, "learning_rate": 1.5e-3, **changes})
    return declared.model_copy(update={"arms": {**declared.arms, "compiled": arm}})


def stack(version: str, transformers: str | None = None, **more: Any) -> dict[str, Any]:
    declared = {"version": version, **more}
    return {**declared, "transformers": transformers} if transformers else declared


def refused(declared: Workload, **conditions: Any) -> list[str]:
    with pytest.raises(InfeasibleError) as caught:
        check_feasible(declared, **conditions)
    return list(caught.value.problems)


def test_arms_of_eager_and_inductor_are_fine_everywhere() -> None:
    for conditions in ({"region": "eu-west-3"}, {"target": Target.HERE}):
        check_feasible(workload(), **conditions)
        assert findings(workload(), today=TODAY, **conditions) == ()


@pytest.mark.parametrize(
    ("changes", "conditions", "sentence"),
    [
        (
            {"compiler": "training-compiler"},
            {"target": Target.HERE},
            "compiler: SageMaker Training Compiler runs in AWS's images on AWS's instances only; "
            "submit the workload to SageMaker, or take another compiler for local runs",
        ),
        (
            {"compiler": "training-compiler", "instance_type": "ml.p5.48xlarge"},
            {},
            "instance_type: SageMaker Training Compiler does not support ml.p5.48xlarge",
        ),
        (
            {"compiler": "training-compiler"},
            {"instance_type": "ml.p5.48xlarge"},
            "instance_type: SageMaker Training Compiler does not support ml.p5.48xlarge",
        ),
        (
            {"compiler": "inductor", "instance_type": "ml.c5.xlarge"},
            {},
            "instance_type: only one of ml.c5.xlarge and the baseline's ml.g5.xlarge has GPUs",
        ),
        (
            {"compiler": "inductor", "instance_type": "ml.g6.xlarge"},
            {"target": Target.HERE, "instance_type": "ml.m5.large"},
            "instance_type: only one of ml.g6.xlarge and the baseline's ml.m5.large has GPUs",
        ),
        (
            {**COMPILER, "training_compiler": stack("2.0.1")},
            {},
            "training_compiler.version: SageMaker Training Compiler has no image with pytorch 2.0.1"
            "; available: pytorch 1.13.1, pytorch 1.12.0, pytorch 1.11.0 with Transformers 4.21.1",
        ),
        (
            {**COMPILER, "training_compiler": stack("1.12.0")},
            {},
            "training_compiler.version: the built-in training program needs Python 3.9 and PyTorch "
            "1.13 or newer, and the image of pytorch 1.12.0 has Python 3.8; take a newer stack",
        ),
        (
            {**COMPILER, "image": "aws"},
            {},
            "image: the built-in training program needs packages that AWS's image of pytorch "
            "1.13.1 does not bring; leave image out",
        ),
        (
            {**COMPILER, "image": "own"},
            {"bases": {"own": OLDER}},
            "image: 'own' extends pytorch-trcomp-training:1.12.0-gpu-py38, and the arm's stack is "
            "pytorch 1.13.1, which is in pytorch-trcomp-training:1.13.1-gpu-py39",
        ),
        (
            {"compiler": "inductor", "image": "own", "instance_type": "ml.p3.2xlarge"},
            {"bases": {"own": find_image("pytorch", "2.13")}},
            "instance_type: AWS's image of PyTorch 2.13 has no kernels for the V100",
        ),
        (
            {"compiler": "inductor", "image": "own"},
            {"bases": {"own": NEWEST}},
            "compiler: torch.compile needs pytorch 2.4 or newer, not 1.13.1; take a newer image",
        ),
        (
            {"compiler": "inductor", "image": "own"},
            {"bases": {"own": XGBOOST}},
            "compiler: inductor does not apply: XGBoost grows trees",
        ),
    ],
)
def test_what_cannot_run_is_refused_under_its_key_with_the_remedy(
    changes: dict[str, Any], conditions: dict[str, Any], sentence: str
) -> None:
    (found,) = refused(arms(**changes), **conditions)
    assert found.startswith(f"arms.compiled.{sentence}")
    assert "; " in found


@pytest.mark.parametrize(
    ("changes", "conditions"),
    [
        (
            {"compiler": "inductor", "instance_type": "ml.c5.xlarge"},
            {"instance_type": "ml.m5.large"},
        ),
        ({"compiler": "inductor", "instance_type": "ml.g6.xlarge"}, {"target": Target.HERE}),
        (COMPILER, {"instance_type": "ml.g6.xlarge"}),
        ({**COMPILER, "image": "own"}, {"bases": {"own": NEWEST}}),
        ({**COMPILER, "image": "own"}, {"bases": {"own": "registry.example/built-elsewhere:1"}}),
        (
            {"compiler": "inductor", "image": "own", "instance_type": "ml.p3.2xlarge"},
            {"bases": {"own": find_image("pytorch", "2.9.0")}},
        ),
    ],
)
def test_what_can_run_is_not_refused(changes: dict[str, Any], conditions: dict[str, Any]) -> None:
    check_feasible(arms(**changes), **conditions)


def test_an_instance_that_the_schedule_gives_is_checked() -> None:
    given = {"TrainingInstanceType": "ml.p5.48xlarge"}
    schedule = workload(schedule={"expression": "rate(7 days)", "parameters": given}).schedule
    declared = arms(compiler="training-compiler")
    (sentence,) = refused(declared.model_copy(update={"schedule": schedule}))
    assert "does not support ml.p5.48xlarge" in sentence
    check_feasible(arms(**COMPILER).model_copy(update={"schedule": schedule}))


def test_what_slows_the_compiler_or_gets_no_patches_is_a_note_and_no_refusal() -> None:
    slowed = arms(
        **COMPILER,
        profiler=True,
        debugger=True,
        distribution="pytorchxla",
        instance_count=2,
        training_compiler=stack("1.13.1", debug=True),
    )
    check_feasible(slowed, region="us-east-1")
    found = findings(slowed, today=TODAY, region="us-east-1")
    fields = [each.sentence.partition(":")[0].removeprefix("arms.compiled.") for each in found]
    assert fields == [
        *("profiler", "debugger", "training_compiler.debug", "compiler", "precision"),
        *("instance_type", "training_compiler.version", "image", "compiler", "profiler"),
        "debugger",
    ]
    base = find_image("pytorch", "2.9.0")
    unpatched = arms(compiler="inductor", image="own")
    (note,) = findings(unpatched, today=TODAY, bases={"own": base})
    assert "AWS has not patched the image" in note.sentence


OWN = {"compiler": "training-compiler", "image": "aws", "instance_type": "ml.p3.2xlarge"}


@pytest.mark.parametrize(
    "declared", [stack("2.11.0", framework="tensorflow"), stack("1.10.2", "4.17.0")], ids=str
)
def test_a_program_of_one_s_own_may_run_in_any_stack_as_aws_made_it(
    declared: dict[str, str],
) -> None:
    program = arms("diffusion", **OWN, training_compiler=declared)
    found = findings(program, today=TODAY, region="us-east-1")
    assert not [each for each in found if each.refused]
    # A note, before a training of hours ends at its last line.
    noted = [each for each in found if NO_SAFETENSORS in each.sentence]
    assert bool(noted) == ("framework" not in declared)


def test_a_program_of_one_s_own_is_refused_on_a_python_older_than_compilegate_job() -> None:
    old = stack("2.5.1", "4.11.0", framework="tensorflow")
    (sentence,) = refused(arms("diffusion", **OWN, training_compiler=old), region="us-east-1")
    needs = "compilegate.job, which starts the program, needs Python 3.8 or newer, and the image"
    assert sentence.startswith(f"arms.compiled.training_compiler.version: {needs}")
    extending = arms("diffusion", compiler="eager", image="own")
    bases = {"own": find_image("huggingface-tensorflow-training-compiler", "2.5.1")}
    (sentence,) = refused(extending, bases=bases)
    assert sentence.startswith(f"arms.compiled.image: {needs}")
    check_feasible(extending, bases={"own": OLDER})
