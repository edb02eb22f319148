"""An arm that cannot run is refused by name, with what to do instead."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pipelines.catalog.images import find_image
from pipelines.definition.feasibility import InfeasibleError, check_feasible, findings
from pipelines.definition.images import base_faults
from pipelines.workload import Arm, TrainingCompiler, Workload, read_workload

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


def compiled_with(**changes: object) -> Workload:
    return workload(compiler="training-compiler", instance_type="ml.p3.16xlarge", **changes)


def stack(version: str, transformers: str | None = None, **more: object) -> TrainingCompiler:
    return TrainingCompiler.model_validate(
        {"version": version, "transformers": transformers, **more}
    )


def sentences(declared: Workload) -> list[str]:
    return [found.sentence for found in findings(declared, today=TODAY, region="us-east-1")]


@pytest.mark.parametrize(
    ("declared", "region", "sentence"),
    [
        (
            compiled_with(training_compiler=stack("2.0.1")),
            None,
            "arms.compiled.compiler: SageMaker Training Compiler has no image of pytorch 2.0.1; "
            "there are: pytorch 1.13.1, pytorch 1.12.0, pytorch 1.11.0 with Transformers 4.21.1, "
            "pytorch 1.10.2 with Transformers 4.17.0, pytorch 1.9.0 with Transformers 4.11.0",
        ),
        (
            compiled_with(training_compiler=stack("1.12.0")),
            None,
            "arms.compiled.compiler: the project's own training program needs Python 3.9 and "
            "PyTorch 1.13 or newer, and the image of pytorch 1.12.0 has Python 3.8; "
            "take a newer stack, or bring a training program of your own",
        ),
        (
            compiled_with(training_compiler=stack("2.11.0", framework="tensorflow")),
            None,
            "arms.compiled.compiler: the project's own training program is written for PyTorch, "
            "not tensorflow 2.11.0; "
            "take a PyTorch stack, or bring a training program of your own",
        ),
        (
            compiled_with(image="aws"),
            None,
            "arms.compiled.image: the project's own training program needs packages that AWS's "
            "image of pytorch 1.13.1 does not bring; leave image out, so that the image of "
            "containers/ that extends it is taken",
        ),
        (
            compiled_with(distribution="sm_dist"),
            None,
            "arms.compiled.distribution: the image of pytorch 1.13.1 does not know the "
            "distribution 'sm_dist'; allowed: \"pytorchxla\"",
        ),
        (
            workload(distribution="pytorchxla"),
            None,
            "arms.compiled.distribution: torch.compile does not work with the distribution "
            '\'pytorchxla\'; allowed: "torchrun" or "smdistributed"',
        ),
    ],
    ids=str,
)
def test_what_the_service_or_the_program_cannot_do_is_refused_with_the_remedy(
    declared: Workload, region: str | None, sentence: str
) -> None:
    assert refused(declared, region=region) == [sentence]


def test_a_region_without_the_image_is_refused() -> None:
    (sentence,) = refused(compiled_with(), region="cn-north-1")
    assert sentence.startswith(
        "arms.compiled.compiler: AWS has no image pytorch-trcomp-training:1.13.1-gpu-py39 for "
        "SageMaker Training Compiler in cn-north-1; the regions that have it: af-south-1, "
    )


def test_what_slows_the_compiler_or_gets_no_patches_is_said_and_not_refused() -> None:
    slowed = compiled_with(
        profiler=True,
        debugger=True,
        distribution="pytorchxla",
        instance_count=2,
        training_compiler=stack("1.13.1", debug=True),
    )
    check_feasible(slowed, region="us-east-1")
    assert [sentence.partition(";")[0] for sentence in sentences(slowed)] == [
        "arms.compiled.profiler: the profiler makes compiled steps slower",
        "arms.compiled.debugger: SageMaker Debugger's hook makes compiled steps slower",
        "arms.compiled.training_compiler.debug: the compiler's debug mode makes compiled steps "
        "slower",
        "arms.compiled.instance_type: 2 x ml.p3.16xlarge exchange gradients without EFA, which "
        "is slow",
        "arms.compiled.compiler: AWS patches the image pytorch-trcomp-training:1.13.1-gpu-py39 "
        "no more, and no newer one will come for SageMaker Training Compiler",
        "arms.compiled.image: AWS does not list the image of pytorch 1.13.1 among those that may "
        "be extended",
    ]


def test_an_image_must_extend_what_the_arm_says_it_holds() -> None:
    newest, older = (
        find_image("pytorch-training-compiler", version) for version in ("1.13.1", "1.12.0")
    )
    declared = compiled_with(image="own").arms
    assert base_faults(declared, {"own": newest}) == []
    assert base_faults(declared, {"own": "registry.example/built-elsewhere:1"}) == []
    assert base_faults(declared, {"own": older}) == [
        "arms.compiled.image: 'own' extends pytorch-trcomp-training:1.12.0-gpu-py38, and the "
        "arm's stack is pytorch 1.13.1, which is in pytorch-trcomp-training:1.13.1-gpu-py39; "
        "declare the stack that the image has, or another image"
    ]


@pytest.mark.parametrize(
    "stack",
    [
        {"framework": "tensorflow", "version": "2.11.0"},
        {"version": "1.10.2", "transformers": "4.17.0"},
    ],
    ids=str,
)
def test_a_program_of_one_s_own_may_run_in_any_stack_as_aws_made_it(stack: dict[str, str]) -> None:
    program = read_workload(Path(__file__).parent / "diffusion.toml")
    arm = Arm.model_validate(
        {
            "compiler": "training-compiler",
            "batch_size": 8,
            "learning_rate": 1e-3,
            "image": "aws",
            "instance_type": "ml.p3.2xlarge",
            "training_compiler": stack,
        }
    )
    declared = program.model_copy(update={"arms": {**program.arms, "compiled": arm}})
    assert not [
        each for each in findings(declared, today=TODAY, region="us-east-1") if each.refused
    ]
