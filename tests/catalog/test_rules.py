"""What may be asked of a compiler: each rule finds its case, by its code, and no other."""

from __future__ import annotations

import dataclasses
import datetime
import tomllib
import typing
from collections.abc import Set
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.catalog import ArmSettings, check
from compilegate.catalog.compilers import Compiler, Stack, compilers, service
from compilegate.catalog.images import base_images, find_image
from compilegate.catalog.instances import instance_class, instances, processor_of
from compilegate.catalog.rules import RULES
from compilegate.execution.status import Target
from compilegate.workload.file import Distribution

TODAY = datetime.date(2026, 11, 20)
PROFILER_ENDS = datetime.date(2027, 6, 30)
TRAINING_COMPILER = compilers()["training-compiler"]
ON_CPU = "ml.m5.xlarge"
ANY_INSTANCE = sorted({*instances(), ON_CPU, "ml.z9.huge", "ml.p6.new", "local"})
PYTORCH = find_image("pytorch", "2.13")
FOR_TRAINIUM = find_image("pytorch-neuronx", "2.9.0", processor="neuron")
EAGER = {"compiler": "eager", "backend": None}
NEURON = {"compiler": "neuron", "backend": None, "version": "2.9.0", "precision": "bf16"}
OLD_TORCH = {"version": "1.13.1", "image": find_image("pytorch-training-compiler", "1.13.1")}
BF16 = {"precision": "bf16"}
FOUR_GPUS = {"instance_type": "ml.g5.12xlarge"}
GOOD = ArmSettings(
    compiler="training-compiler",
    version="1.13.1",
    instance_type="ml.g5.4xlarge",
    region="us-east-1",
    precision="fp16",
    model="bert-base-uncased",
    limit_seconds=86400,
    examples=32,
    learning_rate=1e-3,
    baseline_examples=32,
    baseline_learning_rate=1e-3,
)
OLD = {"compiler-ends", "no-patches"}
"""What every arm with Training Compiler is warned of."""
MODERN = ArmSettings(compiler="torch-compile", backend="inductor", instance_type="ml.g5.xlarge")


def codes(asked: ArmSettings, day: datetime.date = TODAY, **changes: Any) -> set[str]:
    return {each.code for each in check(dataclasses.replace(asked, **changes), day)}


def refused(asked: ArmSettings, **changes: Any) -> set[str]:
    found = check(dataclasses.replace(asked, **changes), TODAY)
    return {each.code for each in found if each.severity == "refusal"}


OF_TRAINING_COMPILER = [
    ({}, set()),
    ({"instance_type": "ml.p5.48xlarge", "distribution": "pytorchxla"}, {"instance-class"}),
    ({"instance_type": ON_CPU}, {"processor"}),
    ({"instance_type": "ml.g5.12xlarge"}, {"idle-accelerators"}),
    ({"distribution": "smdistributed"}, {"distribution"}),
    ({"distribution": "sm_dist"}, {"stack-distribution"}),
    ({"target": Target.HERE}, {"elsewhere"}),
    ({"version": "2.0.1"}, {"no-stack"}),
    ({"transformers": "4.36"}, {"no-stack"}),
    ({"framework": "jax"}, {"framework"}),
    ({"region": "cn-north-1"}, {"region"}),
    ({"precision": "fp8"}, {"precision"}),
    ({"precision": "bf16"}, {"untested-precision"}),
    ({"precision": "fp32"}, {"full-precision"}),
    ({**BF16, "instance_type": "ml.p3.2xlarge"}, {"bf16-refused", "untested-precision"}),
    ({"profiler": True}, {"profiler-slows", "profiler-ends"}),
    ({"debugger": True}, {"debugger-slows", "debugger-ends"}),
    ({"debug_mode": True}, {"debug-mode-slows"}),
    ({"extends_image": True}, {"not-extendable"}),
    ({"model": "somebody/their-own"}, {"untested-model"}),
    ({"model": None}, {"untested-model"}),
    ({"model": "t5-base"}, set()),
    ({"limit_seconds": 900}, {"hardly-repaid"}),
    ({"examples": 64}, {"learning-rate"}),
    ({"examples": 64, "learning_rate": 2e-3}, set()),
    ({"examples": 64, "baseline_examples": None}, set()),
    (
        {"instance_type": "ml.p3.16xlarge", "instance_count": 2, "distribution": "pytorchxla"},
        {"no-efa"},
    ),
    (
        {"instance_type": "ml.g4dn.8xlarge", "instance_count": 8, "distribution": "pytorchxla"},
        {"one-gpu-each"},
    ),
    (
        {"instance_type": "ml.p4d.24xlarge", "instance_count": 4, "distribution": "pytorchxla"},
        set(),
    ),
]  # fmt: skip


def in_order(found: object) -> str:
    """The name of a case, which is the same in each worker: that of a set is not."""
    if isinstance(found, dict):
        return ", ".join(f"{name} {in_order(each)}" for name, each in found.items())
    return ", ".join(sorted(found)) if isinstance(found, Set) else str(found)


@pytest.mark.parametrize(("changes", "found"), OF_TRAINING_COMPILER, ids=in_order)
def test_training_compiler_is_refused_and_warned_of_as_aws_says(
    changes: dict[str, Any], found: set[str]
) -> None:
    assert codes(GOOD, **changes) - OLD == found


OF_OTHERS = [
    ({}, set()),
    ({"backend": "house.backends.compiling"}, set()),
    ({"backend": "inducter"}, {"unknown-backend"}),
    ({"backend": "cudagraphs"}, set()),
    ({"backend": "cudagraphs", "instance_type": ON_CPU}, {"processor"}),
    ({**BF16, "backend": "neuron", "instance_type": "ml.trn2.48xlarge"}, set()),
    ({"backend": "neuron"}, {"processor"}),
    ({"backend": "onnxrt", "version": "2.13"}, {"too-new", "compiler-ends"}),
    ({"backend": "onnxrt", "version": "2.8"}, {"compiler-ends"}),
    ({"version": "1.13.1"}, {"too-old"}),
    ({**NEURON}, {"processor", "compiler-ends"}),
    ({**NEURON, "instance_type": "ml.trn1.2xlarge"}, {"compiler-ends"}),
    ({"compiler": "xla", "backend": None, "version": "2.9"}, {"processor", "compiler-ends"}),
    ({"version": "2.13", "image": PYTORCH, "instance_type": "ml.p3.2xlarge"}, {"no-kernels"}),
    ({**EAGER, **OLD_TORCH}, {"no-patches"}),
    ({**EAGER, "version": "2.9.0", "image": FOR_TRAINIUM}, {"image-for-trainium"}),
    ({**BF16, "instance_type": "ml.g4dn.xlarge"}, {"bf16-emulated"}),
    (
        {**BF16, **EAGER, **OLD_TORCH, "instance_type": "ml.g4dn.xlarge"},
        {"bf16-refused", "no-patches"},
    ),
    ({**FOUR_GPUS}, {"idle-accelerators"}),
    ({**FOUR_GPUS, "launches_itself": True}, set()),
    ({**FOUR_GPUS, "distribution": "torchrun", "processes": 2}, {"idle-gpus"}),
    ({**FOUR_GPUS, "distribution": "torchrun", "processes": 4}, set()),
    ({**FOUR_GPUS, "distribution": "torchrun", "processes": 8}, {"too-many-processes"}),
    ({"instance_type": ON_CPU, "distribution": "torchrun", "processes": 8}, set()),
    ({"instance_count": 4, "distribution": "torchrun"}, {"one-gpu-each", "no-efa"}),
    ({"libraries": frozenset({"sklearn", "numpy"})}, {"trees"}),
    ({"libraries": frozenset({"sklearn", "torch"})}, set()),
    # No page says that torch.compile needs 16 bits, half an hour or a model of a list.
    ({"model": None, "precision": "fp32", "limit_seconds": 120}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "found"), OF_OTHERS, ids=in_order)
def test_other_compilers_are_judged_by_what_is_known_of_them(
    changes: dict[str, Any], found: set[str]
) -> None:
    assert codes(MODERN, **changes) == found


def test_a_sentence_has_its_numbers_its_remedy_and_its_page() -> None:
    baseline = {"learning_rate": 1e-3, "baseline_examples": 32, "baseline_learning_rate": 1e-3}
    (larger,) = check(dataclasses.replace(MODERN, examples=128, **baseline))
    assert larger.sentence == (
        "a step takes 128 examples, 4 times the baseline's 32, at the baseline's learning_rate "
        '0.001; take 0.004 (scale_learning_rate = "linear") or 0.002 ("square-root") '
        "(https://docs.aws.amazon.com/sagemaker/latest/dg/training-compiler-tips-pitfalls.html)"
    )


@pytest.mark.parametrize("stack", TRAINING_COMPILER.stacks, ids=lambda stack: stack.label)
def test_each_stack_runs_where_aws_has_its_image_with_one_distribution_at_most(
    stack: Stack,
) -> None:
    asked = dataclasses.replace(
        GOOD,
        framework=stack.framework,
        version=stack.version,
        transformers=stack.transformers,
        model="gpt2",
    )
    for region in {region for image in base_images() for region in image.hosts}:
        has = region in stack.image.hosts and not region.startswith("cn-")  # no compiler in China
        assert refused(asked, region=region) == (set() if has else {"region"})
    for distribution in ("pytorchxla", "smdistributed", "torchrun"):
        found = refused(asked, instance_type="ml.p3.16xlarge", distribution=distribution)
        assert (found == set()) == (distribution == stack.distribution)
    for name, instance in instances().items():
        lacks = instance.accelerator.name in {"V100", "T4"}
        bf16 = refused(asked, instance_type=name, precision="bf16")
        assert ("bf16-refused" in bf16) == lacks


@pytest.mark.parametrize("instance_type", ANY_INSTANCE)
def test_training_compiler_runs_on_the_classes_that_the_sdk_allowed(instance_type: str) -> None:
    supported = instance_class(instance_type) in {"p3", "p3dn", "g4dn", "p4d", "g5"}
    assert (refused(GOOD, instance_type=instance_type) == set()) == supported


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm", "catboost", "scikit-learn"])
def test_a_framework_without_a_graph_trains_without_a_compiler_only(framework: str) -> None:
    for compiler in compilers():
        asked = ArmSettings(compiler=compiler, framework=framework, instance_type=ON_CPU)
        assert codes(asked) == (set() if compiler == "eager" else {"no-graph"})


def test_an_image_is_warned_of_from_the_day_its_patches_end() -> None:
    asked = dataclasses.replace(MODERN, version="2.13", image=PYTORCH)
    last = datetime.date(2027, 7, 20)
    assert codes(asked, last) == set()
    assert codes(asked, last + datetime.timedelta(days=1)) == {"patches-ended"}


@pytest.mark.parametrize(("days", "told"), [(-366, False), (-365, True), (0, True), (1, True)])
def test_an_end_is_told_from_a_year_before_it(days: int, told: bool) -> None:
    day = PROFILER_ENDS + datetime.timedelta(days=days)
    asked = dataclasses.replace(MODERN, profiler=True)
    ends = [each.reason for each in check(asked, day) if each.code == "profiler-ends"]
    assert bool(ends) is told
    assert ("no longer maintained" in "".join(ends)) is (days > 0)


@pytest.mark.parametrize(
    ("title", "maintained"),
    [
        *((each.title, each.maintained) for each in compilers().values()),
        *((it.title, it.maintained) for it in compilers()["torch-compile"].backends.values()),
        *((name, service(name)) for name in ("profiler", "debugger")),
    ],
    ids=str,
)
def test_who_maintains_it_until_when_has_a_source_and_a_day(title: str, maintained: Any) -> None:
    assert maintained.by
    assert maintained.source.startswith("https://")
    assert maintained.date >= datetime.date(2026, 11, 1)
    end = maintained.end(title, TODAY)
    assert (end is None) == (maintained.status == "maintained")
    if end is not None:
        assert maintained.says
        assert maintained.instead == end.remedy


@pytest.mark.parametrize("compiler", compilers().values(), ids=lambda compiler: compiler.name)
def test_every_compiler_has_an_instance_and_images(compiler: Compiler) -> None:
    for name in compiler.instance_classes:
        assert processor_of(f"ml.{name}.xlarge") in compiler.processors
    for stack in compiler.stacks:
        assert stack.image.hosts
    others = {"cpu", "gpu", "neuron"} - set(compiler.processors)
    everywhere = ("eager", "inductor", "torch-compile")
    assert others <= set(compiler.instead) or compiler.name in everywhere


def test_every_rule_has_its_sentence_and_no_distribution_is_advised_that_nobody_can_name() -> None:
    text = files("compilegate.catalog").joinpath("facts", "findings.toml").read_text("utf-8")
    assert set(RULES) <= set(tomllib.loads(text))
    named = {name for compiler in compilers().values() for name in compiler.distributions}
    assert named == set(typing.get_args(Distribution)) - {"none"}


ANYTHING = st.builds(
    ArmSettings,
    compiler=st.sampled_from([*compilers()]),
    backend=st.sampled_from([None, *compilers()["torch-compile"].backends, "tvm", "a.b"]),
    framework=st.sampled_from(["pytorch", "tensorflow", "xgboost", "jax"]),
    version=st.sampled_from([None, "1.13.1", "2.13", "2.11.0", "2.9.0", "2", "", "x.y"]),
    image=st.sampled_from([None, *base_images()]),
    transformers=st.sampled_from([None, "4.21.1"]),
    instance_type=st.sampled_from(ANY_INSTANCE),
    instance_count=st.integers(1, 4),
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
def test_findings_are_lines_about_fields_refusals_first_and_none_hides_another(
    asked: ArmSettings,
) -> None:
    found = check(asked, TODAY)
    fields = {field.name for field in dataclasses.fields(ArmSettings)}
    for finding in found:
        assert finding.about in fields
        assert finding.remedy
        assert "\n" not in finding.sentence
    severities = [finding.severity for finding in found]
    assert severities == sorted(severities)
    quiet = {"profiler": False, "debugger": False, "extends_image": False}
    assert refused(asked, **quiet) == refused(asked)
