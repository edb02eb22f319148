"""From a settled workload to the facts that advice rests on. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from compilegate.advice.known.facts import Fact, Facts, Obstacle, Profiled, assumed, known, unknown
from compilegate.advice.ranges import Range
from compilegate.advice.rules import PARTS, Part, rules
from compilegate.catalog.instances import accelerator_of, instance_of, processor_of
from compilegate.catalog.prices import Price, price_of
from compilegate.job.names import BASELINE_ARM
from compilegate.workload import (
    Advice,
    OwnProgram,
    Schedule,
    TextClassification,
    Workload,
)
from compilegate.workload.schedule import read_expression, starts_within

TREES = {"xgboost": "xgboost", "lightgbm": "lightgbm", "catboost": "catboost"}
"""Modules of gradient-boosted trees, and the framework that each is."""
_MODULES = {
    "torch": "pytorch",
    "torchvision": "pytorch",
    "timm": "pytorch",
    "fastai": "pytorch",
    "sentence_transformers": "pytorch",
    "pytorch_lightning": "pytorch",
    "lightning": "pytorch",
    "accelerate": "pytorch",
    "torch_xla": "pytorch",
    "diffusers": "pytorch",
    "tensorflow": "tensorflow",
    "tf_keras": "tensorflow",
    "jax": "jax",
    "flax": "jax",
    **TREES,
    "sklearn": "scikit-learn",
}
"""Frameworks by the module that a script imports, those with a graph first."""
WITHOUT_A_GRAPH = frozenset({*TREES.values(), "scikit-learn"})
BESIDE_OTHERS = "scikit-learn"
"""Many a program of another framework takes its metrics and splits."""
_TRANSFORMERS = re.compile(
    r"bert|gpt|t5|roberta|bart|electra|mpnet|xlm|xlnet|deberta|minilm|llama|mistral|qwen|gemma|"
    r"opt-|bloom|falcon|pythia|phi-|vit|vision.?transformer|clip|whisper|swin|transformer"
)
_VISION = re.compile(r"resnet|resnext|efficientnet|convnext|vgg|densenet|rcnn|yolo|unet|mobilenet")
_DIFFUSION = re.compile(r"diffusion|sdxl|flux|ddpm|stable-?diff")
WEEKS = 52
"""A year of a schedule in whole weeks."""
BYTES_PER_PARAMETER = 16
"""Weights, gradients and Adam's two moments, in mixed precision with fp32 copies."""


def facts_of(
    workload: Workload,
    *,
    libraries: frozenset[str] = frozenset(),
    region: str | None = None,
    now: datetime | None = None,
    profiled: Profiled | None = None,
    obstacles: tuple[Obstacle, ...] = (),
) -> Facts:
    """What is known of a workload. `libraries` are what its own program imports; `now` is when a
    schedule is read from, which by default is not read; `profiled` is what a profile found, and
    `obstacles` what the check of its script did."""
    told = workload.advice
    arm = workload.arms[BASELINE_ARM]
    instance_type = arm.instance_type or workload.compute.instance_type
    known_instance, accelerator = instance_of(instance_type), accelerator_of(instance_type)
    instances = told.instance_count or arm.instance_count
    framework = _framework(workload, libraries)
    model = told.model or workload.kind.model_name
    bottleneck, parts = _where_time_goes(
        told, profiled, None if accelerator is None else accelerator.name
    )
    return Facts(
        workload=workload.name,
        description=workload.description,
        framework=framework,
        family=_family(told, workload, model, framework),
        model=model,
        instance_type=instance_type,
        processor=processor_of(instance_type),
        accelerator=None if accelerator is None else accelerator.name,
        accelerators=instances * (known_instance.accelerators if known_instance else 1),
        instances=instances,
        bottleneck=bottleneck,
        parts=parts,
        shapes=_shapes(workload),
        hours=_hours(told),
        precision=known(arm.precision, f"the baseline's precision is {arm.precision}"),
        sequence_length=(
            None
            if workload.kind.document_shapes is None
            else workload.kind.document_shapes.sequence_length
        ),
        batch_size=arm.batch_size,
        runs_per_week=_runs(told, workload.schedule, now),
        usd_per_hour=_price(told, instance_type, region),
        epochs=_epochs(told, workload),
        resumes=_resumes(told, workload),
        too_large=_too_large(told, instance_type),
        spot=arm.spot,
        tree_method=_tree_method(workload),
        engineer_hours=told.engineer_hours,
        usd_per_engineer_hour=told.usd_per_engineer_hour,
        compilers=tuple(dict.fromkeys(each.compiler for each in workload.candidates.values())),
        obstacles=obstacles,
    )


def _framework(workload: Workload, libraries: frozenset[str]) -> Fact[str]:
    """What the built-in program is, else what people say, else what the program imports."""
    told = workload.advice.framework
    imported = {
        each: name
        for name, each in reversed(_MODULES.items())
        if name in libraries and not (each in WITHOUT_A_GRAPH and "transformers" in libraries)
    }
    if isinstance(workload.kind, TextClassification):
        against = told not in (None, "pytorch")
        but = f", although [advice] framework says {told}" if against else ""
        return known("pytorch", f"the built-in program trains with PyTorch{but}")
    if told is None:
        return _untold_framework(workload, imported, libraries)
    if imported and told not in imported and set(imported) != {BESIDE_OTHERS}:
        modules = " and ".join(sorted(imported.values()))
        return assumed(told, f"[advice] framework says {told}, but the program imports {modules}")
    return known(told, "[advice] framework says so")


def _untold_framework(
    workload: Workload, imported: Mapping[str, str], libraries: frozenset[str]
) -> Fact[str]:
    """An arm may take an image of another framework than the program's own: the imports decide."""
    for arm in workload.arms.values():
        if arm.stack is not None and (not imported or arm.stack.framework in imported):
            return known(arm.stack.framework, f"an arm takes {arm.stack.framework}'s image")
    for framework in dict.fromkeys(_MODULES.values()):
        if framework in imported:
            return known(framework, f"the program imports {imported[framework]}")
    if "transformers" in libraries:
        return assumed("pytorch", "the program imports transformers, which mostly is PyTorch")
    return unknown("neither [advice] nor what the program imports says which framework it is")


def _family(told: Advice, workload: Workload, model: str | None, framework: Fact[str]) -> Fact[str]:
    if told.family is not None:
        return known(told.family, "[advice] family says so")
    if framework.value in WITHOUT_A_GRAPH and framework.known:
        return known("trees", f"{framework.value} has no graph")
    if isinstance(workload.kind, TextClassification):
        return known("transformer", "the built-in program trains an encoder of transformer blocks")
    name = (model or "").lower()
    for family, pattern in (
        ("diffusion", _DIFFUSION),
        ("transformer", _TRANSFORMERS),
        ("vision", _VISION),
    ):
        if pattern.search(name):
            return known(family, f"the model is called {model}")
    return unknown("no name of a model says which family it is of")


def _where_time_goes(
    told: Advice, profiled: Profiled | None, accelerator: str | None
) -> tuple[Fact[str], dict[Part, Range]]:
    """What people say of their machine, else what a profile on it found."""
    fact, parts = parts_of_step(told)
    if profiled is None or fact.known:
        return fact, parts
    if profiled.taken_on(accelerator):
        shares = ", ".join(f"{part} {each.middle:.0%}" for part, each in profiled.parts.items())
        source = f"a profile on {profiled.hardware} found {shares}"
        return known(str(profiled.largest), source), dict(profiled.parts)
    return (
        unknown(
            f"a profile on {profiled.hardware}, which is another machine, names "
            f"{profiled.largest}; take one on the workload's own"
        ),
        parts,
    )


def parts_of_step(told: Advice) -> tuple[Fact[str], dict[Part, Range]]:
    """The bottleneck, and the share of a step that each part takes. What was measured as a share
    counts before what somebody calls the bottleneck."""
    shares: dict[Part, float | None] = {
        "data": told.data_share,
        "communication": told.communication_share,
        "launches": told.launch_share,
    }
    given: dict[Part, float] = {part: share for part, share in shares.items() if share is not None}
    rest = max(1.0 - sum(given.values()), 0.0)
    left = [part for part in PARTS if part not in given]
    if left == ["compute"]:
        given["compute"], left = rest, []
    parts = {part: Range.exactly(share) for part, share in given.items()}
    bound = told.bottleneck
    part_of_bound: Part | None = "compute" if bound == "memory" else bound
    limit = rules().thresholds
    for part in left:
        if part_of_bound not in left:
            parts[part] = Range(0.0, rest)
        elif part == part_of_bound:
            parts[part] = Range(min(limit.bottleneck_share.low, rest), rest)
        else:
            parts[part] = Range(0.0, min(limit.other_share.high, rest))
    return _bottleneck(bound, part_of_bound, given, rest if left else 0.0), parts


def _bottleneck(
    bound: str | None, part_of_bound: Part | None, given: Mapping[Part, float], rest: float
) -> Fact[str]:
    """`rest` is what parts without a share take together."""
    largest = max(given, key=lambda part: given[part], default=None)
    if largest is not None and given[largest] >= rest:
        name = bound if bound is not None and part_of_bound == largest else largest
        return known(name, f"[advice] gives {largest} {given[largest]:.0%} of a step")
    if part_of_bound in given:
        return unknown(
            f"[advice] bottleneck is {bound} with a share of {given[part_of_bound]:.0%}, and what "
            "has no share may take more"
        )
    if bound is not None:
        return known(bound, f"[advice] bottleneck is {bound}")
    some = ", and the shares in [advice] leave it open" if given else ""
    return unknown(f"nobody has said where a step's time goes{some}")


def _shapes(workload: Workload) -> Fact[str]:
    if workload.advice.shapes is not None:
        return known(workload.advice.shapes, "[advice] shapes says so")
    arm = workload.arms[BASELINE_ARM]
    padding = workload.kind.padding
    if padding is None:
        return unknown("only the program knows whether its shapes vary")
    of = {"max": "static", "buckets": "few", "longest": "varying"}
    return known(of[arm.padding], f"the baseline pads to {arm.padding!r}")


def _hours(told: Advice) -> Fact[Range]:
    if told.hours is None:
        return unknown("nobody has said how long a run takes")
    return known(Range.exactly(told.hours), f"[advice] hours is {told.hours:g}")


def _runs(told: Advice, schedule: Schedule | None, now: datetime | None) -> Fact[float]:
    if told.runs_per_week is not None:
        return known(told.runs_per_week, f"[advice] runs_per_week is {told.runs_per_week:g}")
    if schedule is None or now is None:
        return unknown("there is no schedule, and nobody has said how often it runs")
    runs = runs_per_week(schedule, now)
    if schedule.enabled:
        return known(runs, f"the schedule {schedule.expression} starts it")
    return assumed(runs, f"the schedule {schedule.expression} would start it, but is switched off")


def runs_per_week(schedule: Schedule, now: datetime) -> float:
    """How often a schedule starts, on average over the next year."""
    starts = starts_within(read_expression(schedule.expression), now.date(), 7 * WEEKS)
    return starts / WEEKS


def _price(told: Advice, instance_type: str, region: str | None) -> Fact[float]:
    if told.usd_per_hour is not None:
        return known(told.usd_per_hour, f"[advice] usd_per_hour is {told.usd_per_hour:g}")
    price = price_of(instance_type, region)
    if isinstance(price, Price):
        return known(price.usd_per_hour, price.note)
    elsewhere = price_of(instance_type)
    if isinstance(elsewhere, Price):
        return assumed(elsewhere.usd_per_hour, f"{elsewhere.note}, not in {region}")
    return unknown(price.reason)


def _epochs(told: Advice, workload: Workload) -> Fact[int]:
    if told.epochs is not None:
        return known(told.epochs, f"[advice] epochs is {told.epochs}")
    if isinstance(workload.kind, TextClassification):
        epochs = workload.kind.recipe.epochs
        return known(epochs, f"recipe.epochs is {epochs}")
    for name in ("epochs", "num_train_epochs", "num_epochs", "max_epochs"):
        value = _hyperparameters(workload).get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return known(value, f"the hyperparameter {name} is {value}")
    return unknown("nobody has said how many epochs a run has")


def _resumes(told: Advice, workload: Workload) -> Fact[bool]:
    if told.resumes is not None:
        return known(told.resumes, "[advice] resumes says so")
    if isinstance(workload.kind, TextClassification):
        return known(True, "the built-in program goes on from its checkpoints")
    return unknown("only the program knows whether it goes on from a checkpoint")


def _too_large(told: Advice, instance_type: str) -> Fact[bool]:
    instance = instance_of(instance_type)
    if told.parameters is None or instance is None:
        return known(False, "it trains on this instance as it is")
    needs = told.parameters * BYTES_PER_PARAMETER / 2**30
    has = instance.accelerator_memory_gib
    return known(
        needs > has,
        f"{told.parameters:,.0f} parameters need about {needs:,.1f} GiB with Adam, and one "
        f"{instance.accelerator.name} has {has} GiB",
    )


def _hyperparameters(workload: Workload) -> Mapping[str, str | int | float | bool]:
    kind = workload.kind
    return kind.program.hyperparameters if isinstance(kind, OwnProgram) else {}


def _tree_method(workload: Workload) -> str | None:
    value = _hyperparameters(workload).get("tree_method")
    return None if value is None else str(value)
