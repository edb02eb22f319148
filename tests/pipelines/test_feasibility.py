"""An arm that cannot run is refused by name, with what to do instead."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest

from compilegate.catalog.images import BaseImage, find_image
from compilegate.execution.status import Target
from compilegate.workload import (
    InfeasibleError,
    Schedule,
    Stack,
    Workload,
    read_workload,
)
from compilegate.workload.feasibility import (
    NO_BASES,
    Bases,
    check_feasible,
    findings,
)
from compilegate.workload.file import STACKS
from tests.workload.settled import TOPICS, settled_arm, workload_with

WORKLOAD = read_workload(TOPICS)
TODAY = datetime.date(2026, 11, 20)


def workload(**changes: object) -> Workload:
    """The small workload with another candidate."""
    return workload_with(TOPICS, arms__compiled={"precision": "fp32", **changes})


def refused(
    declared: Workload,
    *,
    region: str | None = None,
    target: Target = Target.SAGEMAKER,
    bases: Bases = NO_BASES,
    instance_type: str | None = None,
) -> list[str]:
    with pytest.raises(InfeasibleError) as caught:
        check_feasible(
            declared, region=region, target=target, bases=bases, instance_type=instance_type
        )
    return list(caught.value.problems)


def test_arms_of_eager_and_inductor_are_fine_everywhere() -> None:
    check_feasible(WORKLOAD, region="eu-west-3")
    check_feasible(WORKLOAD, target=Target.HERE)
    assert findings(WORKLOAD, today=TODAY, region="eu-west-3") == ()


@pytest.mark.parametrize(
    ("compiler", "title"),
    [("training-compiler", "SageMaker Training Compiler"), ("neuron", "AWS Neuron")],
)
def test_what_runs_in_aws_s_images_only_is_refused_on_this_machine(
    compiler: str, title: str
) -> None:
    assert refused(workload(compiler=compiler), target=Target.HERE) == [
        f"arms.compiled.compiler: {title} runs in AWS's images on AWS's instances only; "
        "submit the workload to SageMaker, or take another compiler for local runs"
    ]


def test_an_instance_that_the_compiler_does_not_know_is_refused_under_its_key() -> None:
    assert refused(workload(compiler="training-compiler", instance_type="ml.p5.48xlarge")) == [
        "arms.compiled.instance_type: SageMaker Training Compiler does not support "
        "ml.p5.48xlarge: AWS made it for the classes p3, p3dn, g4dn, p4d, g5; "
        'take an instance of one of them, or compiler = "inductor"'
    ]


def test_an_instance_that_an_execution_or_the_schedule_gives_is_looked_at() -> None:
    declared = workload(compiler="training-compiler")
    (sentence,) = refused(declared, instance_type="ml.p5.48xlarge")
    assert sentence.startswith(
        "arms.compiled.instance_type: SageMaker Training Compiler does not support ml.p5.48xlarge"
    )
    scheduled = Schedule.model_validate(
        {"expression": "rate(7 days)", "parameters": {"TrainingInstanceType": "ml.p5.48xlarge"}}
    )
    assert refused(dataclasses.replace(declared, schedule=scheduled)) == [sentence]
    named = workload(compiler="training-compiler", instance_type="ml.p3.2xlarge")
    check_feasible(dataclasses.replace(named, schedule=scheduled))
    check_feasible(named, instance_type="ml.p5.48xlarge")


@pytest.mark.parametrize("target", list(Target))
def test_arms_on_a_gpu_and_on_a_cpu_are_refused_wherever_they_run(target: Target) -> None:
    mixed = workload(compiler="inductor", instance_type="ml.c5.xlarge")
    (sentence,) = refused(mixed, target=target)
    assert sentence == (
        "arms.compiled.instance_type: only one of ml.c5.xlarge and the baseline's ml.g5.xlarge has "
        "GPUs, so a comparison would be of the machines and not of a compiler; give both arms "
        "GPUs, or neither"
    )
    check_feasible(mixed, target=target, instance_type="ml.m5.large")
    on_gpus = workload(compiler="inductor", instance_type="ml.g6.xlarge")
    check_feasible(on_gpus, target=target)
    assert refused(on_gpus, target=target, instance_type="ml.m5.large")[0].startswith(
        "arms.compiled.instance_type: only one of ml.g6.xlarge and the baseline's ml.m5.large has"
    )


def compiled_with(**changes: object) -> Workload:
    return workload(compiler="training-compiler", instance_type="ml.p3.16xlarge", **changes)


def stack(version: str, transformers: str | None = None, **more: object) -> Stack:
    return STACKS["training-compiler"].model_validate(
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
            "arms.compiled.training_compiler.version: SageMaker Training Compiler has no image "
            "with pytorch 2.0.1; "
            "available: pytorch 1.13.1, pytorch 1.12.0, pytorch 1.11.0 with Transformers 4.21.1, "
            "pytorch 1.10.2 with Transformers 4.17.0, pytorch 1.9.0 with Transformers 4.11.0",
        ),
        (
            compiled_with(training_compiler=stack("1.12.0")),
            None,
            "arms.compiled.training_compiler.version: the built-in training program needs "
            "Python 3.9 and PyTorch 1.13 or newer, and the image of pytorch 1.12.0 has Python 3.8; "
            "take a newer stack, or bring a training program of your own",
        ),
        (
            compiled_with(training_compiler=stack("2.11.0", framework="tensorflow")),
            None,
            "arms.compiled.training_compiler.version: the built-in training program is "
            "written for PyTorch, not tensorflow 2.11.0; "
            "take a PyTorch stack, or bring a training program of your own",
        ),
        (
            compiled_with(image="aws"),
            None,
            "arms.compiled.image: the built-in training program needs packages that AWS's "
            "image of pytorch 1.13.1 does not bring; leave image out, so that the image of "
            "containers/ that extends it is taken",
        ),
        (
            compiled_with(distribution="sm_dist"),
            None,
            "arms.compiled.distribution: the image of pytorch 1.13.1 does not support the "
            "distribution 'sm_dist'; expected \"pytorchxla\"",
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
        "arms.compiled.profiler: the profiler slows every step down",
        "arms.compiled.debugger: SageMaker Debugger's hook slows every step down",
        "arms.compiled.training_compiler.debug: the compiler's debug mode slows every step down",
        "arms.compiled.compiler: AWS tested SageMaker Training Compiler with models of the hub, "
        "and this workload names none",
        "arms.compiled.precision: fp32 alone leaves most of what SageMaker Training Compiler "
        "gains: AWS's tests are in 16 bits, but for three",
        "arms.compiled.instance_type: 2 x ml.p3.16xlarge exchange gradients without EFA, which "
        "is slow",
        "arms.compiled.training_compiler.version: AWS no longer patches the image "
        "pytorch-trcomp-training:1.13.1-gpu-py39",
        "arms.compiled.image: AWS does not list the image of pytorch 1.13.1 as one that may "
        "be extended",
        "arms.compiled.compiler: SageMaker Training Compiler is no longer maintained (AWS): there "
        "will be no new releases, and its images get no more patches",
        "arms.compiled.profiler: SageMaker Profiler is about to end on 2027-06-30 (AWS): after "
        "that neither its console nor what it made can be reached (https://docs.aws.amazon.com/sagemaker/latest/dg/"
        "profiler-availability-change.html, read 2026-11-22)",
        "arms.compiled.debugger: SageMaker Debugger is about to end (AWS): since 2026-07-30 it is "
        "closed to new customers, and gets no new features",
    ]


def test_an_image_must_extend_what_the_arm_says_it_holds() -> None:
    newest, older = (
        find_image("pytorch-training-compiler", version) for version in ("1.13.1", "1.12.0")
    )
    declared = compiled_with(image="own")
    check_feasible(declared, bases={"own": newest})
    check_feasible(declared, bases={"own": "registry.example/built-elsewhere:1"})
    assert refused(declared, bases={"own": older}) == [
        "arms.compiled.image: 'own' extends pytorch-trcomp-training:1.12.0-gpu-py38, and the "
        "arm's stack is pytorch 1.13.1, which is in pytorch-trcomp-training:1.13.1-gpu-py39; "
        "declare the stack that the image has, or another image"
    ]


@pytest.mark.parametrize(
    ("base", "changes", "sentence"),
    [
        (
            find_image("pytorch", "2.13"),
            {"instance_type": "ml.p3.2xlarge"},
            "arms.compiled.instance_type: AWS's image of PyTorch 2.13 has no kernels for the V100 "
            "of ml.p3.2xlarge, Volta (compute capability 7.0); take a newer instance such as "
            "ml.g5.xlarge, or PyTorch 2.9 or older",
        ),
        (
            find_image("pytorch-training-compiler", "1.13.1"),
            {},
            "arms.compiled.compiler: torch.compile needs pytorch 2.4 or newer, not 1.13.1; take a "
            'newer image, or compiler = "training-compiler" on an old one',
        ),
        (
            find_image("xgboost", "3.2-0", processor="cpu"),
            {},
            "arms.compiled.compiler: inductor does not apply: XGBoost grows trees; it has no graph "
            'of tensor operations to compile; take compiler = "eager"; what makes it faster: '
            'tree_method = "hist", on a GPU with device = "cuda", or more instances with its '
            "distributed training",
        ),
    ],
    ids=["a GPU too old", "a torch too old", "no torch"],
)
def test_what_the_image_extends_decides_what_torch_compile_can_do(
    base: BaseImage, changes: dict[str, object], sentence: str
) -> None:
    declared = workload(image="own", **changes)
    check_feasible(declared, bases={"own": find_image("pytorch", "2.9.0")})
    assert refused(declared, bases={"own": base}) == [sentence]


def test_an_image_that_gets_no_patches_is_said_of_any_arm() -> None:
    base = find_image("pytorch", "2.9.0")
    (found,) = findings(workload(image="own"), today=TODAY, bases={"own": base})
    assert found.sentence == (
        f"arms.compiled.image: AWS has not patched the image {base.name} since 2026-10-15; "
        "use the image of a newer version"
    )


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
    arm = settled_arm(
        **{
            "compiler": "training-compiler",
            "batch_size": 8,
            "learning_rate": 1e-3,
            "image": "aws",
            "instance_type": "ml.p3.2xlarge",
            "training_compiler": stack,
        }
    )
    declared = dataclasses.replace(program, arms={**program.arms, "compiled": arm})
    found = findings(declared, today=TODAY, region="us-east-1")
    assert not [each for each in found if each.refused]
    # It says so before a training of hours ends at its last line.
    without_safetensors = [each for each in found if "writes safetensors" in each.sentence]
    assert len(without_safetensors) == (stack.get("framework") != "tensorflow")


def own_program_in(**changes: object) -> Workload:
    program = read_workload(Path(__file__).parent / "diffusion.toml")
    arm = settled_arm(**{"batch_size": 8, "learning_rate": 1e-3, **changes})
    return dataclasses.replace(program, arms={**program.arms, "compiled": arm})


def test_a_program_of_one_s_own_is_refused_on_a_python_older_than_compilegate_job() -> None:
    stack = {"framework": "tensorflow", "version": "2.5.1", "transformers": "4.11.0"}
    declared = own_program_in(
        compiler="training-compiler",
        image="aws",
        instance_type="ml.p3.2xlarge",
        training_compiler=stack,
    )
    (sentence,) = refused(declared, region="us-east-1")
    assert sentence.startswith(
        "arms.compiled.training_compiler.version: compilegate.job, which starts the program, needs "
        "Python 3.8 or newer, and the image huggingface-tensorflow-trcomp-training:2.5.1-"
    )
    assert sentence.endswith(" has Python 3.7; take a newer image")


def test_so_it_is_in_an_image_that_extends_such_a_one() -> None:
    declared = own_program_in(compiler="eager", image="own")
    old = find_image("huggingface-tensorflow-training-compiler", "2.5.1")
    (sentence,) = refused(declared, bases={"own": old})
    assert sentence.startswith("arms.compiled.image: compilegate.job, which starts the program, ")
    check_feasible(declared, bases={"own": find_image("pytorch-training-compiler", "1.12.0")})
