"""What is known of one workload, each fact with where it comes from; and what finished executions
measured. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from compilegate.advice.rules import PARTS, Part, Range, rules
from compilegate.catalog import ArmSettings, Price, price_of
from compilegate.catalog.compilers import graphless
from compilegate.catalog.instances import accelerator_of
from compilegate.job.contract import BASELINE_ARM
from compilegate.workload import OwnProgram, TextClassification, Workload
from compilegate.workload.cron import read_expression, starts_within
from compilegate.workload.feasibility import NO_BASES, Bases, settings_of

if TYPE_CHECKING:
    from compilegate.gate.observations import ArmObservation, Observations
    from compilegate.gate.verdict import Verdict

Value = TypeVar("Value")

WITHOUT_A_GRAPH = {name: each.module for name, each in graphless().items()}
"""The modules of those that have none, by framework."""
BESIDE_OTHERS = "scikit-learn"
"""Many a program of another framework takes its metrics and splits."""
HALF = ("bf16", "fp16")
_OF_THE_MODEL = ("quality.", "parity.differs")
"""How the gate's codes of a model that is not as good begin."""
WEEKS = 52
"""A year of a schedule in whole weeks."""


@dataclass(frozen=True)
class Fact(Generic[Value]):
    """A value, and how it is known; without one it is not."""

    value: Value | None
    source: str  # source of the fact, or what is missing; a clause without a full stop
    assumed: bool = False  # whether nothing better is there: no verdict is confident because of it

    @property
    def known(self) -> bool:
        """Whether a verdict may rest on it."""
        return self.value is not None and not self.assumed


Profiled = tuple[str, Mapping[Part, Range]]
"""The hardware of a profile, in words, and the shares of a step that it found."""


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    """What `compilegate check` found in the workload's own script, and in which compilers' way."""

    rule: str
    severity: str
    sentence: str
    compilers: tuple[str, ...]


# What finished executions measured.


@dataclass(frozen=True)
class Machine:
    """The machine of a job; None without a rented instance or an accelerator."""

    instance_type: str | None
    accelerator: str | None

    @property
    def words(self) -> str:
        return self.instance_type or self.accelerator or "a CPU"

    def is_that_of(self, instance_type: str) -> bool:
        """Whether it is such an instance, or has its accelerator."""
        if self.instance_type is not None:
            return self.instance_type == instance_type
        wanted, has = accelerator_of(instance_type), (self.accelerator or "").split()
        return wanted is not None and wanted.name in has


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one execution measured; batch (of each process) and precision are the baseline's."""

    execution: str
    started: float
    workload: str
    machine: Machine
    batch_size: int | None
    precision: str | None


@dataclass(frozen=True, kw_only=True)
class Timing(Measured):
    """How long the baseline's jobs trained, from the shortest to the longest of its seeds."""

    hours: Range
    steps: int


@dataclass(frozen=True, kw_only=True)
class Experience(Measured):
    """What one execution measured of one candidate."""

    arm: str
    option: str
    outcome: str  # `pass`, `fail` or `inconclusive`, as the gate judged
    regression: str | None  # why the model is not as good; None where the gate found no such reason
    speedup: Range  # the gate's interval: steps of the candidate against the baseline
    estimate: float
    confidence: float
    compile_seconds: Range | None
    """Compile seconds, warm to cold; None where jobs only printed their speed."""
    same_batch: bool
    sequence_length: int | None
    family: str | None
    shapes: str | None

    def differences(self, facts: Facts) -> tuple[str, ...]:
        """Differences of its baseline from the workload's, each in a clause."""
        of = {
            "in {}, not {}": (self.precision, facts.precision),
            "at a batch of {}, not {}": (self.batch_size, facts.batch_size),
            "at a sequence length of {}, not {}": (self.sequence_length, facts.sequence_length),
        }
        differ = {words: ends for words, ends in of.items() if None not in ends}
        return tuple(words.format(*ends) for words, ends in differ.items() if ends[0] != ends[1])

    def resembles(self, facts: Facts) -> bool:
        """Whether it is of another workload with this one's family, shapes, precision, machine."""
        own = (self.family, self.shapes, self.precision)
        alike = None not in own and self.machine.is_that_of(facts.instance_type)
        wanted = (facts.family.value, facts.shapes.value, facts.precision)
        return alike and own == wanted and self.workload != facts.workload


def timing_of(execution: str, started: float, seen: Observations) -> Timing | None:
    """How long the baseline trained; None where no job says it."""
    arm = next((each for each in seen.arms if each.arm == seen.baseline), None)
    own = (each for each in seen.replicates if each.arm == seen.baseline)
    jobs = [(it.train_seconds, it.steps) for it in own if it.train_seconds and it.steps]
    if not jobs or arm is None:
        return None
    hours = [seconds / 3600 for seconds, _ in jobs]
    return Timing(
        **_about(execution, started, seen, arm, arm),
        hours=Range(min(hours), max(hours)),
        steps=max(steps for _, steps in jobs),
    )


def experiences_of(
    execution: str, started: float, verdict: Verdict, seen: Observations, facts: Facts | None
) -> Iterator[Experience]:
    """What a verdict and its observations say of each candidate whose speed was measured. `facts`
    are those of its workload; None where it is not declared any longer."""
    arms = {each.arm: each for each in seen.arms}
    baseline = arms.get(verdict.baseline.arm)
    for candidate in verdict.candidates:
        arm, speed = arms.get(candidate.arm), candidate.speed
        if arm is None or speed is None or baseline is None:
            continue
        ends, run, backend = speed.speedup, speed.run, arm.proof.get("backend")
        option = option_of(arm.compiler, backend, arm.precision, baseline.precision)
        if option is None or not 0.0 < ends.lower <= ends.estimate <= ends.upper < math.inf:
            continue
        # A refusal that is about the model itself, not about speed.
        failed = [it for it in candidate.reasons if str(it.outcome) == "fail"]
        worse = [it.sentence for it in failed if str(it.code).startswith(_OF_THE_MODEL)]
        states = () if run is None else (run.compile_cold, run.compile_warm)
        seconds = [max(each.seconds, 0.0) for each in states if each is not None]
        seconds += [] if run is None else [max(run.candidate_compile_seconds, 0.0)]
        yield Experience(
            **_about(execution, started, seen, baseline, arm),
            arm=candidate.arm,
            option=option,
            outcome=str(candidate.outcome),
            regression=next(iter(worse), None),
            speedup=Range(ends.lower, ends.upper),
            estimate=ends.estimate,
            confidence=candidate.confidence,
            compile_seconds=Range(min(seconds), max(seconds)) if seconds else None,
            same_batch=arm.batch_size == baseline.batch_size,
            sequence_length=None if facts is None else facts.sequence_length,
            family=None if facts is None else facts.family.value,
            shapes=None if facts is None else facts.shapes.value,
        )


def _about(
    name: str, started: float, seen: Observations, baseline: ArmObservation, arm: ArmObservation
) -> dict[str, Any]:
    """The arm's machine: an accelerator that is only described was not there."""
    has = {key: value for key, value in arm.environment.items() if value not in ("None", "none")}
    accelerator = None if has.get("described") else has.get("accelerator")
    return {
        "execution": name,
        "started": started,
        "workload": seen.workload,
        "machine": Machine(has.get("instance_type") or None, accelerator or None),
        "batch_size": baseline.batch_size,
        "precision": baseline.precision,
    }


def option_of(
    compiler: str | None, backend: object, precision: str | None, before: str | None
) -> str | None:
    """Which option an arm is, None for none; `before` is the baseline's precision."""
    if compiler == "eager":
        return "bf16" if precision in HALF and before == "fp32" else None
    name = str(backend or "inductor") if compiler == "torch-compile" else compiler
    found = (
        it.name for it in rules().options if it.compiler and name == (it.backend or it.compiler)
    )
    return next(found, None)


# What is known of a workload.


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of one workload."""

    workload: str
    framework: Fact[str]
    family: Fact[str]
    settings: ArmSettings
    """What the baseline asks for, in the words of the catalog, which says what can run."""
    needs: tuple[ArmSettings, ...]  # the same of all arms that name no instance of their own
    arms: Mapping[str, int]  # how many candidates of the file are an option, by its name
    in_use: frozenset[str]  # the options that the baseline has already
    seeds: int
    instances: int
    bottleneck: Fact[str]
    parts: Mapping[Part, Range]
    shapes: Fact[str]  # `static`, `few` or `varying`
    hours: Fact[Range]
    precision: str
    sequence_length: int | None
    batch_size: int
    runs_per_week: Fact[float]
    usd_per_hour: Fact[float]
    engineer_hours: float | None
    obstacles: tuple[Obstacle, ...] = ()
    """What stands in the workload's own script, the gravest first."""

    @property
    def instance_type(self) -> str:
        return self.settings.instance_type

    @property
    def usd_per_run_hour(self) -> float | None:
        """What all instances of a job cost in an hour; None: the price is not known."""
        price = self.usd_per_hour.value
        return None if price is None else price * self.instances

    def obstacles_of(self, compiler: str | None) -> tuple[Obstacle, ...]:
        """Obstacles to a compiler, by its name in arms."""
        name = "torch-compile" if compiler == "inductor" else compiler
        return tuple(each for each in self.obstacles if name in each.compilers)


def facts_of(
    workload: Workload,
    *,
    libraries: frozenset[str] = frozenset(),
    region: str | None = None,
    now: datetime | None = None,
    bases: Bases = NO_BASES,
    profiled: Profiled | None = None,
    obstacles: tuple[Obstacle, ...] = (),
    timings: Sequence[Timing] = (),
) -> Facts:
    """What is known of a workload. `libraries` are what its own program imports; `bases` what its
    images extend; `now` is when a schedule is read from, which by default is not read; `profiled`,
    `obstacles` and `timings` are what a profile, the check of its script and executions found."""
    declared, arm, kind = workload.advice, workload.arms[BASELINE_ARM], workload.kind
    framework, model = _framework(workload, libraries), declared.model or kind.model_name
    settings = {
        name: replace(
            settings_of(workload, each, bases.get(each.image_folder)), region=region, model=model
        )
        for name, each in workload.arms.items()
    }
    own, shapes, method = settings[BASELINE_ARM], kind.document_shapes, None
    bottleneck, parts = _where_time_goes(declared.bottleneck, profiled, own.instance_type)
    # The newest of the workload as it is declared now, those on its own machine first.
    now_declared = (workload.name, arm.batch_size, arm.precision)
    own_runs = [it for it in timings if (it.workload, it.batch_size, it.precision) == now_declared]
    key = lambda it: (it.machine.is_that_of(own.instance_type), it.started)  # noqa: E731
    timing = max(own_runs, key=key, default=None)
    if isinstance(kind, OwnProgram):
        method = kind.program.hyperparameters.get("tree_method")
    options = (
        option_of(it.compiler, it.compiler_options.get("backend"), it.precision, arm.precision)
        for it in workload.candidates.values()
    )
    in_use = {"bf16": arm.precision in HALF, "tree-method": method in ("hist", "gpu_hist")}
    return Facts(
        workload=workload.name,
        framework=framework,
        family=_family(workload, model, framework),
        settings=own,
        needs=tuple(
            each for name, each in settings.items() if workload.arms[name].instance_type is None
        ),
        arms=Counter(filter(None, options)),
        in_use=frozenset(name for name, used in in_use.items() if used),
        seeds=len(workload.seeds),
        instances=arm.instance_count,
        bottleneck=bottleneck,
        parts=parts,
        shapes=_shapes(workload),
        hours=_hours(declared.hours, own, timing),
        precision=arm.precision,
        sequence_length=None if shapes is None else shapes.sequence_length,
        batch_size=arm.batch_size,
        runs_per_week=_runs(workload, now),
        usd_per_hour=price_near(own.instance_type, region, workload.declared_prices),
        engineer_hours=declared.engineer_hours,
        obstacles=obstacles,
    )


def _framework(workload: Workload, libraries: frozenset[str]) -> Fact[str]:
    """What the built-in program is, else what people say, else what the program imports."""
    declared = workload.advice.framework
    if isinstance(workload.kind, TextClassification):
        return Fact("pytorch", "the built-in program trains with PyTorch")
    graphless = {} if "transformers" in libraries else WITHOUT_A_GRAPH
    named = {name: modules.split() for name, modules in (rules().modules | graphless).items()}
    found = {name: [it for it in modules if it in libraries] for name, modules in named.items()}
    imported = {name: modules[0] for name, modules in found.items() if modules}
    if declared is not None:
        other = bool(imported) and declared not in imported and set(imported) != {BESIDE_OTHERS}
        but = f", but the program imports {' and '.join(sorted(imported.values()))}" * other
        return Fact(declared, f"[advice] framework says {declared}{but}", assumed=other)
    # An arm may take an image of another framework than the program's own: the imports decide.
    stacks = [arm.stack.framework for arm in workload.arms.values() if arm.stack is not None]
    for name in stacks:
        if not imported or name in imported:
            return Fact(name, f"an arm takes {name}'s image")
    for name, module in imported.items():
        return Fact(name, f"the program imports {module}")
    if "transformers" in libraries:
        mostly = "the program imports transformers, which mostly is PyTorch"
        return Fact("pytorch", mostly, assumed=True)
    return Fact(None, "neither [advice] nor what the program imports says which framework it is")


def _family(workload: Workload, model: str | None, framework: Fact[str]) -> Fact[str]:
    if workload.advice.family is not None:
        return Fact(workload.advice.family, "[advice] family says so")
    if framework.value in WITHOUT_A_GRAPH and framework.known:
        return Fact("trees", f"{framework.value} has no graph")
    if isinstance(workload.kind, TextClassification):
        return Fact("transformer", "the built-in program trains an encoder of transformer blocks")
    for family, pattern in rules().families.items():
        if re.search(pattern, (model or "").lower()):
            return Fact(family, f"the model is called {model}")
    return Fact(None, "no name of a model says which family it is of")


def _where_time_goes(
    declared: str | None, profiled: Profiled | None, instance_type: str
) -> tuple[Fact[str], Mapping[Part, Range]]:
    """What people say of their machine, else what a profile on it found."""
    parts, accelerator = parts_of_step(declared), accelerator_of(instance_type)
    if declared is not None:
        return Fact(declared, f"[advice] bottleneck is {declared}"), parts
    if profiled is None:
        return Fact(None, "it is not known where a step's time goes"), parts
    hardware, shares = profiled
    largest = max(shares, key=lambda each: shares[each].high)
    if accelerator is not None and accelerator.name in re.split(r"[\s,()-]+", hardware):
        found = ", ".join(f"{part} {each.high:.0%}" for part, each in shares.items())
        return Fact(largest, f"a profile on {hardware} found at most {found}"), shares
    other = f"a profile on {hardware}, which is another machine, names {largest}"
    return Fact(None, f"{other}; take one on {instance_type}"), parts


PART_OF = {"memory": "compute"}
"""The part of a step that a bottleneck of another name is."""


def parts_of_step(bottleneck: str | None) -> dict[Part, Range]:
    """The share of a step that each part takes, by what is called its bottleneck."""
    if bottleneck is None:
        return dict.fromkeys(PARTS, Range(0.0, 1.0))
    part, least = PART_OF.get(bottleneck, bottleneck), rules().thresholds["bottleneck_share"]
    return {it: Range(least, 1.0) if it == part else Range(0.0, 1.0 - least) for it in PARTS}


def _shapes(workload: Workload) -> Fact[str]:
    if workload.advice.shapes is not None:
        return Fact(workload.advice.shapes, "[advice] shapes says so")
    if workload.kind.padding is None:
        return Fact(None, "only the program knows whether its shapes vary")
    padding = workload.arms[BASELINE_ARM].padding
    of = {"max": "static", "buckets": "few", "longest": "varying"}
    return Fact(of[padding], f"the baseline pads to {padding!r}")


def _hours(declared: float | None, settings: ArmSettings, timing: Timing | None) -> Fact[Range]:
    """What an execution measured on the workload's machine, else what people say, else what an
    execution on another machine leaves possible. No job is longer than it may be."""
    here, took = settings.instance_type, "it is not known how long a run takes"
    if timing is not None:
        minutes, where = timing.hours.high * 60, timing.machine.words
        length = f"{minutes:.2g} minutes" if minutes < 100 else f"{minutes / 60:.3g} hours"
        took = f"execution {timing.execution} trained {length} on {where}, {timing.steps:,} steps"
        if timing.machine.is_that_of(here):
            return Fact(timing.hours, took)
    if declared is not None:
        limit = declared if settings.limit_seconds is None else settings.limit_seconds / 3600
        but = f", but compute.max_runtime_seconds ends a job after {limit:g}" * (declared > limit)
        hours = min(declared, limit)
        return Fact(Range(hours, hours), f"[advice] hours is {declared:g}{but}")
    if timing is None or timing.machine.accelerator is not None:
        return Fact(None, f"{took}, and no execution measured it on {here}")
    # Generous bounds: a GPU is made to be faster than a CPU, and one CPU is much like another.
    factor = Range(0.25, 4.0) if accelerator_of(here) is None else Range(0.01, 1.0)
    return Fact(
        timing.hours.times(factor), f"{took}, which leaves so much for {here}", assumed=True
    )


def _runs(workload: Workload, now: datetime | None) -> Fact[float]:
    declared, schedule = workload.advice.runs_per_week, workload.schedule
    if declared is not None:
        return Fact(declared, f"[advice] runs_per_week is {declared:g}")
    if schedule is None or now is None:
        return Fact(None, "there is no schedule, and it is not known how often it runs")
    starts = starts_within(read_expression(schedule.expression), now.date(), 7 * WEEKS)
    does = "starts it" if schedule.enabled else "would start it, but is switched off"
    source = f"the schedule {schedule.expression} {does}"
    return Fact(starts / WEEKS, source, assumed=not schedule.enabled)


def price_near(
    instance_type: str, region: str | None, declared: Mapping[str, float] | None = None
) -> Fact[float]:
    """A price as plans and the gate use it; another region's, by name, where there is none."""
    price, note = price_of(instance_type, region, declared), ""
    if not isinstance(price, Price):
        price, note = price_of(instance_type), f"; none is known for {region}"
    if isinstance(price, Price):
        return Fact(price.usd_per_hour, f"{price.note}{note}")
    return Fact(None, price.reason)
