"""What a compiler can do: each rule finds its case, by its code, and no other."""

from __future__ import annotations

import dataclasses
import datetime
import tomllib
import typing
from collections.abc import Set
from importlib.resources import files
from typing import Any

import pytest

from compilegate.catalog import ArmSettings, check
from compilegate.catalog.compilers import Stack, compilers, service
from compilegate.catalog.images import base_images, find_image
from compilegate.catalog.instances import instance_class, instances, processor_of
from compilegate.catalog.rules import RULES
from compilegate.execution.status import Target
from compilegate.workload.declaration.arms import Distribution

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


def codes(arm: ArmSettings, day: datetime.date = TODAY, **changes: Any) -> set[str]:
    return {each.code for each in check(dataclasses.replace(arm, **changes), day)}


def refused(arm: ArmSettings, **changes: Any) -> set[str]:
    found = check(dataclasses.replace(arm, **changes), TODAY)
    return {each.code for each in found if each.severity == "refusal"}


ON_SEVERAL = {"instance_count": 4, "distribution": "pytorchxla"}
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
    ({**ON_SEVERAL, "instance_type": "ml.p3.16xlarge"}, {"no-efa"}),
    ({**ON_SEVERAL, "instance_type": "ml.g4dn.8xlarge"}, {"one-gpu-each"}),
    ({**ON_SEVERAL, "instance_type": "ml.p4d.24xlarge"}, set()),
]  # fmt: skip


def in_order(found: object) -> str:
    """The name of a case, which is the same in each worker: that of a set is not."""
    if isinstance(found, ArmSettings):
        return found.compiler
    if isinstance(found, dict):
        return ", ".join(f"{name} {in_order(each)}" for name, each in found.items())
    return ", ".join(sorted(found)) if isinstance(found, Set) else str(found)


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


CASES = [
    *((GOOD, OLD, *case) for case in OF_TRAINING_COMPILER),
    *((MODERN, set(), *case) for case in OF_OTHERS),
]


@pytest.mark.parametrize(("arm", "always", "changes", "found"), CASES, ids=in_order)
def test_each_rule_finds_its_case_and_no_other(
    arm: ArmSettings, always: set[str], changes: dict[str, Any], found: set[str]
) -> None:
    findings = check(dataclasses.replace(arm, **changes), TODAY)
    assert {each.code for each in findings} - always == found
    severities = [each.severity for each in findings]
    assert severities == sorted(severities), "refusals first"
    for each in findings:
        assert hasattr(arm, each.about)
        assert each.remedy
        assert "\n" not in each.sentence


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
    versions = dict(zip(("framework", "version", "transformers"), stack.versions, strict=True))
    arm = dataclasses.replace(GOOD, **versions, model="gpt2")
    for region in {region for image in base_images() for region in image.hosts}:
        has = region in stack.image.hosts and not region.startswith("cn-")  # no compiler in China
        assert refused(arm, region=region) == (set() if has else {"region"})
    for distribution in ("pytorchxla", "smdistributed", "torchrun"):
        found = refused(arm, instance_type="ml.p3.16xlarge", distribution=distribution)
        assert (found == set()) == (distribution == stack.distribution)
    for name, instance in instances().items():
        lacks = instance.accelerator.name in {"V100", "T4"}
        bf16 = refused(arm, instance_type=name, precision="bf16")
        assert ("bf16-refused" in bf16) == lacks


def test_training_compiler_runs_on_the_classes_that_the_sdk_allowed() -> None:
    for name in ANY_INSTANCE:
        supported = instance_class(name) in {"p3", "p3dn", "g4dn", "p4d", "g5"}
        assert (refused(GOOD, instance_type=name) == set()) == supported, name


def test_a_framework_without_a_graph_trains_without_a_compiler_only() -> None:
    for framework in ("xgboost", "lightgbm", "catboost", "scikit-learn"):
        for compiler in compilers():
            arm = ArmSettings(compiler=compiler, framework=framework, instance_type=ON_CPU)
            assert codes(arm) == (set() if compiler == "eager" else {"no-graph"})


def test_an_image_is_warned_of_from_the_day_its_patches_end() -> None:
    arm = dataclasses.replace(MODERN, version="2.13", image=PYTORCH)
    last = datetime.date(2027, 7, 20)
    assert codes(arm, last) == set()
    assert codes(arm, last + datetime.timedelta(days=1)) == {"patches-ended"}


def test_an_end_is_reported_from_a_year_before_it() -> None:
    arm = dataclasses.replace(MODERN, profiler=True)
    for days, reported in ((-366, False), (-365, True), (0, True), (1, True)):
        day = PROFILER_ENDS + datetime.timedelta(days=days)
        ends = [each.reason for each in check(arm, day) if each.code == "profiler-ends"]
        assert bool(ends) is reported
        assert ("no longer maintained" in "".join(ends)) is (days > 0)


def test_who_maintains_it_until_when_has_a_source_and_a_day() -> None:
    known = [*compilers().values(), *compilers()["torch-compile"].backends.values()]
    maintained = {each.title: each.maintained for each in known}
    maintained |= {name: service(name) for name in ("profiler", "debugger")}
    for title, each in maintained.items():
        assert each.by
        assert each.source.startswith("https://")
        assert each.date >= datetime.date(2026, 11, 1)
        end = each.end(title, TODAY)
        assert (end is None) == (each.status == "maintained")
        assert end is None or (bool(each.says) and each.instead == end.remedy)


def test_every_compiler_has_an_instance_and_images_and_every_rule_a_sentence() -> None:
    for compiler in compilers().values():
        for name in compiler.instance_classes:
            assert processor_of(f"ml.{name}.xlarge") in compiler.processors
        assert all(stack.image.hosts for stack in compiler.stacks)
        others = {"cpu", "gpu", "neuron"} - set(compiler.processors)
        everywhere = ("eager", "inductor", "torch-compile")
        assert others <= set(compiler.instead) or compiler.name in everywhere
    text = files("compilegate.catalog").joinpath("facts", "findings.toml").read_text("utf-8")
    assert set(RULES) <= set(tomllib.loads(text))
    named = {name for compiler in compilers().values() for name in compiler.distributions}
    assert named == set(typing.get_args(Distribution)) - {"none"}
