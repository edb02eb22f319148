"""What may be asked of a compiler, and the sentence for what may not."""

from __future__ import annotations

import dataclasses
import datetime
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.catalog import Asked, Finding, check
from compilegate.catalog.compilers import Compiler, Stack, compilers
from compilegate.catalog.images import base_images, find_image
from compilegate.catalog.instances import instance_class, instances, processor_of
from compilegate.execution.target import Target
from compilegate.workload.file import Distribution

TODAY = datetime.date(2026, 11, 20)
TRAINING_COMPILER = compilers()["training-compiler"]
ON_CPU = "ml.m5.xlarge"
ANY_INSTANCE = sorted({*instances(), ON_CPU, "ml.z9.huge", "ml.p6.new", "local"})


def on(instance_type: str, stack: Stack, **changes: object) -> Asked:
    """What asks for exactly one stack of Training Compiler."""
    asked = Asked(
        compiler="training-compiler",
        framework=stack.framework,
        version=stack.version,
        transformers=stack.transformers,
        instance_type=instance_type,
        region="us-east-1",
        precision="fp16",
        model="gpt2",
    )
    return dataclasses.replace(asked, **changes)


NATIVE = TRAINING_COMPILER.stacks[0]
GOOD = on("ml.g5.2xlarge", NATIVE)


def refusals(asked: Asked) -> list[Finding]:
    return [finding for finding in check(asked, TODAY) if finding.severity == "refusal"]


def warnings(asked: Asked) -> list[Finding]:
    return [finding for finding in check(asked, TODAY) if finding.severity == "warning"]


def test_training_compiler_has_the_ten_stacks_that_aws_documents() -> None:
    assert {stack.label for stack in TRAINING_COMPILER.stacks} == {
        "pytorch 1.13.1",
        "pytorch 1.12.0",
        "pytorch 1.11.0 with Transformers 4.21.1",
        "pytorch 1.10.2 with Transformers 4.17.0",
        "pytorch 1.9.0 with Transformers 4.11.0",
        "tensorflow 2.11.0",
        "tensorflow 2.10.0",
        "tensorflow 2.9.1",
        "tensorflow 2.6.3 with Transformers 4.17.0",
        "tensorflow 2.5.1 with Transformers 4.11.0",
    }


@pytest.mark.parametrize("stack", TRAINING_COMPILER.stacks, ids=lambda stack: stack.label)
def test_each_stack_is_allowed_where_aws_has_its_image_and_refused_elsewhere(stack: Stack) -> None:
    everywhere = {region for image in base_images() for region in image.hosts}
    for region in everywhere:
        found = refusals(on("ml.g4dn.xlarge", stack, region=region))
        in_china = region.startswith("cn-")  # which has TensorFlow's images, and no compiler
        assert (found == []) == (region in stack.image.hosts and not in_china)
        assert [finding.about for finding in found] in ([], ["region"])


@pytest.mark.parametrize("stack", TRAINING_COMPILER.stacks, ids=lambda stack: stack.label)
def test_each_stack_is_said_to_get_no_patches(stack: Stack) -> None:
    sentences = [finding.sentence for finding in warnings(on("ml.g4dn.xlarge", stack))]
    assert sentences == [
        f"AWS no longer patches the image {stack.image.name}; isolate its jobs from the network "
        "([network] isolation)",
        "SageMaker Training Compiler is no longer maintained (AWS): there will be no new releases, "
        "and its images get no more patches; AWS names no day "
        "(https://docs.aws.amazon.com/sagemaker/latest/dg/training-compiler.html, read "
        '2026-11-22); take compiler = "inductor"',
    ]


@pytest.mark.parametrize("instance_type", ANY_INSTANCE)
def test_training_compiler_runs_on_the_classes_that_the_sdk_allowed(instance_type: str) -> None:
    found = refusals(dataclasses.replace(GOOD, instance_type=instance_type))
    supported = instance_class(instance_type) in {"p3", "p3dn", "g4dn", "p4d", "g5"}
    assert [finding.about for finding in found] == ([] if supported else ["instance_type"])


@pytest.mark.parametrize(
    ("stack", "distribution", "allowed"),
    [
        (stack, distribution, distribution == stack.distribution)
        for stack in TRAINING_COMPILER.stacks
        for distribution in ("pytorchxla", "smdistributed", "torchrun", "multi_worker_mirrored")
    ],
    ids=str,
)
def test_each_stack_knows_one_distribution_at_most(
    stack: Stack, distribution: str, allowed: bool
) -> None:
    found = refusals(on("ml.p3.16xlarge", stack, distribution=distribution))
    assert [finding.about for finding in found] == ([] if allowed else ["distribution"])


def test_torchrun_has_one_process_for_each_gpu_of_an_instance() -> None:
    launched = Asked(compiler="inductor", instance_type="ml.g5.12xlarge", distribution="torchrun")
    too_many, idle, right, on_cpu = (
        dataclasses.replace(launched, **changes)
        for changes in (
            {"processes": 8},
            {"processes": 2},
            {"processes": 4},
            {"processes": 8, "instance_type": ON_CPU},
        )
    )
    assert [finding.sentence for finding in refusals(too_many)] == [
        "8 on each ml.g5.12xlarge, which has 4 GPUs: each process needs its own; "
        "expected 4, or an instance with more"
    ]
    assert [finding.sentence for finding in warnings(idle)] == [
        "2 on each ml.g5.12xlarge, which has 4 GPUs: the other GPUs stay idle; take 4"
    ]
    assert refusals(idle) == refusals(right) == warnings(right) == refusals(on_cpu) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"instance_type": "ml.p5.48xlarge"},
            "SageMaker Training Compiler does not support ml.p5.48xlarge: AWS made it for the "
            "classes p3, p3dn, g4dn, p4d, g5; "
            'take an instance of one of them, or compiler = "inductor"',
        ),
        (
            {"instance_type": ON_CPU},
            "SageMaker Training Compiler does not run on ml.m5.xlarge, which has no accelerator; "
            "it compiles for GPUs; take a p3, p3dn, g4dn, p4d or g5 instance, "
            'or compiler = "inductor"',
        ),
        (
            {"distribution": "smdistributed"},
            "SageMaker Training Compiler does not work with the distribution 'smdistributed'; "
            'expected "pytorchxla"',
        ),
        (
            {"heterogeneous": True},
            "SageMaker Training Compiler does not work with heterogeneous instance groups; "
            "give all instances one type",
        ),
        (
            {"target": Target.HERE},
            "SageMaker Training Compiler runs in AWS's images on AWS's instances only; "
            "submit the workload to SageMaker, or take another compiler for local runs",
        ),
        (
            {"version": "2.0.1"},
            "SageMaker Training Compiler has no image with pytorch 2.0.1; available: "
            "pytorch 1.13.1, pytorch 1.12.0, pytorch 1.11.0 with Transformers 4.21.1, "
            "pytorch 1.10.2 with Transformers 4.17.0, pytorch 1.9.0 with Transformers 4.11.0",
        ),
        (
            {"transformers": "4.36"},
            "SageMaker Training Compiler has no image with pytorch 1.13.1 with Transformers 4.36; "
            "available: pytorch 1.13.1, pytorch 1.12.0, pytorch 1.11.0 with Transformers 4.21.1, "
            "pytorch 1.10.2 with Transformers 4.17.0, pytorch 1.9.0 with Transformers 4.11.0",
        ),
        (
            {"framework": "jax"},
            "SageMaker Training Compiler does not compile jax; expected pytorch, tensorflow; "
            'or take compiler = "eager"',
        ),
        (
            {"precision": "fp8"},
            "SageMaker Training Compiler does not train in fp8; expected fp32, fp16, bf16",
        ),
        (
            {"compiler": "inductor"},
            "torch.compile needs pytorch 2.4 or newer, not 1.13.1; "
            'take a newer image, or compiler = "training-compiler" on an old one',
        ),
        (
            {"compiler": "neuron", "version": "2.9.0", "precision": "bf16"},
            "AWS Neuron does not run on ml.g5.2xlarge, which has GPUs; it compiles for Trainium; "
            'take a trn1 instance, or compiler = "inductor"',
        ),
        (
            {"compiler": "xla", "version": "2.9", "precision": "bf16"},
            "PyTorch/XLA does not run on ml.g5.2xlarge, which has GPUs; its support of GPUs ended "
            'with 2.9 and it is kept for tests on CPUs: take compiler = "training-compiler", '
            'whose images have an older one, or "inductor"',
        ),
        (
            {
                "compiler": "inductor",
                "version": "2.13",
                "image": find_image("pytorch", "2.13"),
                "instance_type": "ml.p3.2xlarge",
            },
            "AWS's image of PyTorch 2.13 has no kernels for the V100 of ml.p3.2xlarge, "
            "Volta (compute capability 7.0); "
            "take a newer instance such as ml.g5.xlarge, or PyTorch 2.9 or older",
        ),
        (
            {"compiler": "inductor", "framework": "xgboost", "version": "3.2-0"},
            "inductor does not apply: XGBoost grows trees; it has no graph of tensor operations "
            'to compile; take compiler = "eager"; what makes it faster: tree_method = "hist", '
            'on a GPU with device = "cuda", or more instances with its distributed training',
        ),
        (
            {"compiler": "tvm"},
            "'tvm' is not in the catalog; expected one of eager, inductor, neuron, torch-compile, "
            "training-compiler, xla",
        ),
    ],
    ids=str,
)
def test_a_refusal_names_the_reason_and_what_to_do(
    changes: dict[str, object], sentence: str
) -> None:
    asked = dataclasses.replace(GOOD, **changes)
    assert [finding.sentence for finding in refusals(asked)] == [sentence]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"profiler": True},
            "the profiler slows every step down; turn it off when speed is measured",
        ),
        (
            {"debugger": True},
            "SageMaker Debugger's hook slows every step down; turn it off when speed is measured",
        ),
        (
            {"debug_mode": True},
            "the compiler's debug mode slows every step down; turn it off when speed is measured",
        ),
        (
            {"precision": "bf16"},
            "AWS tested SageMaker Training Compiler with fp32 and fp16, but not with bf16; "
            "use fp16, or rely on the gate",
        ),
        (
            {"extends_image": True},
            "AWS does not list the image of pytorch 1.13.1 as one that may be extended; "
            "add packages only, and leave its torch as it is",
        ),
        (
            {"instance_type": "ml.g5.12xlarge"},
            "1 x ml.g5.12xlarge has 4 accelerators, and without a distribution one process uses "
            'one of them; set distribution to "pytorchxla"',
        ),
    ],
    ids=str,
)
def test_a_warning_is_added_to_those_of_the_patches_and_the_end(
    changes: dict[str, object], sentence: str
) -> None:
    asked = dataclasses.replace(GOOD, **changes)
    assert refusals(asked) == []
    said = [finding.sentence for finding in warnings(asked)]
    services = {"profiler", "debugger"} & set(changes)  # which end, too
    assert len(said) == 3 + len(services)
    assert sentence in said


def test_several_instances_with_efa_are_not_warned_of() -> None:
    asked = dataclasses.replace(
        GOOD, instance_type="ml.p4d.24xlarge", instance_count=4, distribution="pytorchxla"
    )
    assert {finding.about for finding in check(asked, TODAY)} == {"version", "compiler"}


def test_an_old_image_of_pytorch_is_warned_of_from_the_day_its_patches_end() -> None:
    image = find_image("pytorch", "2.13")
    asked = Asked(compiler="inductor", version="2.13", image=image, instance_type="ml.g5.xlarge")
    assert check(asked, datetime.date(2027, 7, 20)) == ()
    (finding,) = check(asked, datetime.date(2027, 7, 21))
    assert finding.sentence == (
        "AWS has not patched the image pytorch:2.13-cu133-amzn2023-sagemaker since 2027-07-20; "
        "use the image of a newer version"
    )


@pytest.mark.parametrize("compiler", compilers())
def test_a_profiler_is_warned_of_on_every_arm_since_one_alone_is_compared_unfairly(
    compiler: str,
) -> None:
    found = check(Asked(compiler=compiler, instance_type=ON_CPU, profiler=True), TODAY)
    assert "profiler" in [finding.about for finding in found]


def test_an_image_of_training_compiler_is_warned_of_whatever_trains_in_it() -> None:
    image = find_image("pytorch-training-compiler", "1.13.1")
    asked = Asked(compiler="eager", version="1.13.1", image=image, instance_type="ml.p3.2xlarge")
    (finding,) = check(asked, TODAY)
    assert (finding.severity, finding.about) == ("warning", "image")
    assert finding.reason == f"AWS no longer patches the image {image.name}"


def test_an_image_for_trainium_is_refused_on_a_gpu() -> None:
    image = find_image("pytorch-neuronx", "2.9.0", processor="neuron")
    asked = Asked(compiler="eager", version="2.9.0", image=image, instance_type="ml.g5.xlarge")
    assert [finding.sentence for finding in refusals(asked)] == [
        f"AWS's image {image.name} is for Trainium, which ml.g5.xlarge lacks; take another image"
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ["distribution"]),
        ({"distribution": "torchrun"}, ["processes"]),
        ({"distribution": "torchrun", "processes": 4}, []),
        ({"launches_itself": True}, []),
    ],
    ids=str,
)
def test_idle_gpus_are_told_of_where_the_request_decides_how_many_work(
    changes: dict[str, object], told: list[str]
) -> None:
    asked = Asked(compiler="inductor", instance_type="ml.g5.12xlarge")
    found = check(dataclasses.replace(asked, **changes), TODAY)
    assert [finding.about for finding in found] == told


def test_no_distribution_is_advised_that_a_workload_cannot_name() -> None:
    """What is listed for a compiler is what its arms may declare."""
    named = {name for compiler in compilers().values() for name in compiler.distributions}
    assert named == set(typing.get_args(Distribution)) - {"none"}


@pytest.mark.parametrize("instance_type", ["ml.g4dn.xlarge", "ml.p3.2xlarge"])
def test_bf16_is_warned_of_on_a_gpu_that_emulates_it(instance_type: str) -> None:
    asked = Asked(compiler="eager", instance_type=instance_type, precision="bf16")
    (finding,) = check(asked, TODAY)
    assert (finding.severity, finding.about) == ("warning", "precision")
    assert "only emulates bf16" in finding.reason


@pytest.mark.parametrize("stack", TRAINING_COMPILER.stacks, ids=lambda stack: stack.label)
def test_training_compiler_is_refused_bf16_on_a_gpu_without_it_and_nowhere_else(
    stack: Stack,
) -> None:
    for instance_type, instance in instances().items():
        lacks = instance.accelerator.name in {"V100", "T4"}
        found = refusals(on(instance_type, stack, precision="bf16"))
        assert ("precision" in [finding.about for finding in found]) == lacks
        if lacks:
            (finding,) = found
            assert finding.reason.endswith(f"in the image of {stack.framework} {stack.version}")


def test_bf16_is_refused_in_any_image_whose_torch_raises_on_such_a_gpu() -> None:
    image = find_image("pytorch-training-compiler", "1.13.1")
    beside = Asked(
        compiler="eager",
        version="1.13.1",
        image=image,
        instance_type="ml.g4dn.xlarge",
        precision="bf16",
    )
    assert [finding.sentence for finding in refusals(beside)] == [
        "the T4 of ml.g4dn.xlarge has no bf16, and training in it ends there with an error in the "
        "image of pytorch 1.13.1; use fp16 or fp32 there, or an instance of class g5, g6, p4d or "
        "newer"
    ]


def test_torch_compile_is_said_to_leave_graphs_in_bf16_to_eager_on_such_a_gpu() -> None:
    asked = Asked(compiler="inductor", instance_type="ml.g4dn.xlarge", precision="bf16")
    (finding,) = check(asked, TODAY)
    assert finding.severity == "warning"
    assert "leaves graphs with bf16 inputs or outputs to eager mode there" in finding.reason


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm", "catboost", "scikit-learn"])
def test_a_framework_without_a_graph_trains_without_a_compiler_only(framework: str) -> None:
    for compiler in compilers():
        asked = Asked(compiler=compiler, framework=framework, instance_type=ON_CPU)
        about = [finding.about for finding in check(asked, TODAY)]
        assert about == ([] if compiler == "eager" else ["framework"])


def test_neuron_is_refused_locally_and_allowed_on_trainium() -> None:
    asked = Asked(
        compiler="neuron", version="2.9.0", instance_type="ml.trn1.2xlarge", precision="bf16"
    )
    assert [finding.about for finding in check(asked, TODAY)] == ["compiler"]  # it ended
    assert [
        finding.about for finding in refusals(dataclasses.replace(asked, target=Target.HERE))
    ] == ["target"]


ANYTHING = st.builds(
    Asked,
    compiler=st.sampled_from([*compilers(), "tvm"]),
    backend=st.sampled_from([None, *compilers()["torch-compile"].backends, "tvm", "a.b"]),
    framework=st.sampled_from(["pytorch", "tensorflow", "xgboost", "jax"]),
    version=st.sampled_from([None, "1.13.1", "2.13", "2.11.0", "2.9.0", "2", "", "x.y"]),
    image=st.sampled_from([None, *base_images()]),
    transformers=st.sampled_from([None, "4.21.1"]),
    instance_type=st.sampled_from(ANY_INSTANCE),
    instance_count=st.integers(1, 4),
    heterogeneous=st.booleans(),
    region=st.sampled_from([None, "us-east-1", "cn-north-1", "xx-none-1"]),
    precision=st.sampled_from(["fp32", "bf16", "fp16", "int8"]),
    distribution=st.sampled_from([None, "torchrun", "pytorchxla", "smdistributed", "?"]),
    extends_image=st.booleans(),
    profiler=st.booleans(),
    debugger=st.booleans(),
    target=st.sampled_from(Target),
)


@pytest.mark.slow
@given(ANYTHING)
def test_every_finding_names_a_field_and_is_one_line_and_refusals_come_first(asked: Asked) -> None:
    found = check(asked, TODAY)
    fields = {field.name for field in dataclasses.fields(Asked)}
    for finding in found:
        assert finding.about in fields
        assert finding.remedy
        assert "\n" not in finding.sentence
    severities = [finding.severity for finding in found]
    assert severities == sorted(severities)


@pytest.mark.slow
@given(ANYTHING)
def test_what_was_refused_once_is_refused_whatever_else_is_wrong(asked: Asked) -> None:
    """A profiler that is on, say, never hides that an instance is the wrong one."""
    quiet = dataclasses.replace(asked, profiler=False, debugger=False, extends_image=False)
    assert refusals(quiet) == refusals(asked)


@pytest.mark.parametrize("compiler", compilers().values(), ids=lambda compiler: compiler.name)
def test_every_compiler_has_an_instance_and_sources(compiler: Compiler) -> None:
    assert compiler.date == "2026-11"
    assert compiler.sources
    for name in compiler.instance_classes:
        assert processor_of(f"ml.{name}.xlarge") in compiler.processors
    for stack in compiler.stacks:
        assert stack.image.hosts
    others = {"cpu", "gpu", "neuron"} - set(compiler.processors)
    assert others <= set(compiler.instead) or compiler.name in (
        *("eager", "inductor", "torch-compile"),
    )
