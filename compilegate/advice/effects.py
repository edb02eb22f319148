"""What an option is expected to do to a run: by executions of the workload, then of others, then by
what was published or is assumed; and what that saves. Pure.

Time follows Amdahl's law: only the parts of a step that an option attacks get faster. Dollars are
hours times the machines' price. What is saved is after the option's own compilation, and a
benchmark is what an execution trains: every arm with every seed of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple

from compilegate.advice.facts import HALF, Experience, Facts, price_near
from compilegate.advice.rules import NOTHING, UNCHANGED, Option, Part, Range, over_corners, rules
from compilegate.catalog import Finding, check
from compilegate.catalog.compilers import compilers, upgrades
from compilegate.catalog.instances import accelerator_of, instance_class, instance_of, processor_of
from compilegate.catalog.tested_models import TestedModel, rows_of

WEEKS_PER_YEAR = 365 / 7
RECOMPILED = {"static": 1, "few": 4}
"""How many times as long compiling may take by the shapes; 20 where they vary. Guesses."""
MOST_RUNS = 1_000_000
"""More than that counts as never."""


class Basis(StrEnum):
    """What an expected outcome rests on."""

    MEASURED = "measured"
    """An execution of this workload on its machine."""
    SIMILAR = "measured on similar workloads"
    ELSEWHERE = "measured otherwise, and widened by a rule of thumb"
    PUBLISHED = "published"
    ASSUMED = "assumed"


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What an option does to a run, and where that comes from."""

    basis: Basis
    sentence: str
    """What was measured, published or assumed; without a full stop."""
    speedup: Range
    """How many times as fast the attacked share gets."""
    attacked: Range = UNCHANGED
    """The share of a run that gets faster, from 0 to 1."""
    compile_seconds: Range = NOTHING
    price_factor: Range = UNCHANGED
    """What an hour costs, as a multiple of the present price."""

    @property
    def time_ratio(self) -> Range:
        """New time over old, without compiling."""
        return over_corners(
            lambda share, speedup: 1.0 - share + share / speedup, self.attacked, self.speedup
        )

    @property
    def whole_speedup(self) -> Range:
        """The speed-up of a whole run, without compiling."""
        return Range(1 / self.time_ratio.high, 1 / self.time_ratio.low)


# By what executions measured.


def expected(facts: Facts, option: Option, experiences: Sequence[Experience]) -> Effect | None:
    """What is expected of an option; None where nothing can be said."""
    prior = prior_of(facts, option)
    here = own_experience(facts, option, experiences)
    if here is not None:
        return _measured([here], Basis.MEASURED, _words(here), prior)
    of_option = [each for each in experiences if each.option == option.name]
    if similar := [each for each in of_option if each.resembles(facts)]:
        return _measured(similar, Basis.SIMILAR, _words_of_others(similar, facts), prior)
    elsewhere = latest([each for each in of_option if each.workload == facts.workload])
    if elsewhere is None or prior is None:
        return prior
    machine = elsewhere.machine.is_that_of(facts.instance_type)
    but = ", ".join([*([] if machine else ["on another machine"]), *elsewhere.differences(facts)])
    said = f"{_words(elsewhere)}, but {but}; {prior.sentence}"
    own = _measured([elsewhere], Basis.ELSEWHERE, said, prior)
    return replace(
        own,
        speedup=own.speedup.hull(prior.whole_speedup),
        compile_seconds=own.compile_seconds.hull(prior.compile_seconds),
        price_factor=prior.price_factor,
    )


def own_experience(
    facts: Facts, option: Option, experiences: Sequence[Experience]
) -> Experience | None:
    """What the newest execution of the workload measured of an option: on its own machine, with
    the baseline as it is now."""
    return latest(
        [
            each
            for each in experiences
            if (each.option, each.workload) == (option.name, facts.workload)
            and each.machine.is_that_of(facts.instance_type)
            and not each.differences(facts)
        ]
    )


def latest(experiences: Sequence[Experience]) -> Experience | None:
    """The best candidate of the newest execution: one that passed, then the surest gain."""
    key = lambda it: (it.started, it.outcome == "pass", it.speedup.low)  # noqa: E731
    return max(experiences, key=key, default=None)


def chance_of(found: Experience, speedup: float) -> float:
    """How likely the candidate is at least so much faster, where the logarithm of its speed-up is
    distributed normally around the gate's estimate."""
    width = math.log(found.estimate / found.speedup.low) / NormalDist().inv_cdf(found.confidence)
    distance = math.log(found.estimate / speedup)
    return NormalDist().cdf(distance / width) if width > 0 else float(distance > 0)


def _measured(
    found: Sequence[Experience], basis: Basis, sentence: str, prior: Effect | None
) -> Effect:
    """The hull of all: workloads differ among themselves, and the next one may lie beyond."""
    compiling = [each.compile_seconds for each in found if each.compile_seconds is not None]
    compiling = compiling or [NOTHING if prior is None else prior.compile_seconds]
    return Effect(
        basis=basis,
        sentence=sentence,
        speedup=_hull([each.speedup for each in found]),
        compile_seconds=_hull(compiling),
    )


def _hull(ranges: Sequence[Range]) -> Range:
    return Range(min(each.low for each in ranges), max(each.high for each in ranges))


def _words(one: Experience) -> str:
    batch = "" if one.same_batch else ", which has another batch,"
    return (
        f"execution {one.execution} measured {one.speedup.low:.2f} to {one.speedup.high:.2f} times "
        f"with arm {one.arm}{batch} on {one.machine.words}; the gate's verdict was {one.outcome}"
    )


def _words_of_others(found: Sequence[Experience], facts: Facts) -> str:
    workloads = ", ".join(sorted({each.workload for each in found}))
    least = rules().thresholds.off_speedup
    fast = sum(each.speedup.low >= least for each in found)
    but = ", ".join(dict.fromkeys(word for each in found for word in each.differences(facts)))
    return (
        f"{workloads}, of the same model family, shapes, precision and instance: {fast} of "
        f"{len(found)} were surely {least:.2f} times as fast{but and f'; they trained {but}'}"
    )


# By what is published or assumed.


def prior_of(facts: Facts, option: Option) -> Effect | None:
    """What was published or is assumed, before anything was executed; None where nothing was."""
    if option.kind == "none":
        return Effect(basis=Basis.ASSUMED, sentence="nothing changes", speedup=UNCHANGED)
    if option.speedup is None:
        return None
    speedup, basis, said = _by_figures(facts, option, option.speedup)
    attacked = share_of(facts.parts, option.attacks)
    if option.kind == "trees":
        attacked = rules().thresholds.bottleneck_share
    return Effect(
        basis=basis,
        sentence=said,
        speedup=speedup,
        attacked=attacked,
        compile_seconds=_compiling(facts, option),
        price_factor=option.price_factor,
    )


def _by_figures(facts: Facts, option: Option, usual: Range) -> tuple[Range, Basis, str]:
    """Figures of another precision, family or machine are not taken for this one's; where they are
    all there is, the answer says what they are of."""
    shapes, family = facts.shapes.value, facts.family.value
    untested = "untested-model" in findings(facts, option)
    others_only = bool(option.untested_speedup) and family not in (*option.families, None)
    no_speed = f"no speed of {family} models was published, only of {option.figures_of}"
    for applies, found, basis, why in (
        (shapes == "varying", option.varying_speedup, Basis.ASSUMED, "shapes vary: it recompiles"),
        (
            processor_of(facts.instance_type) == "cpu",
            option.cpu_speedup,
            Basis.PUBLISHED,
            option.cpu_because,
        ),
        (facts.precision == "fp32", option.fp32_speedup, Basis.PUBLISHED, option.fp32_because),
        (untested, option.untested_speedup, Basis.PUBLISHED, option.untested_because),
        (others_only, option.untested_speedup, Basis.ASSUMED, no_speed),
    ):
        if applies and found is not None:
            return found, basis, why or ""
    said = option.figures
    if option.figures_of is not None and facts.precision == "bf16":
        said += f"; all of it is of {option.figures_of}, and this trains in bf16"
    if option.varying_speedup is not None and shapes is None:
        usual = usual.hull(option.varying_speedup)
        said += "; widened, since shapes are not known"
    if option.name == "tree-method" and facts.tree_method is None:
        usual = usual.hull(UNCHANGED)
        said += "; or nothing: it is the default since XGBoost 2.0, and the file sets no method"
    return usual, Basis.PUBLISHED if option.published else Basis.ASSUMED, said


def _compiling(facts: Facts, option: Option) -> Range:
    """The catalog's figure where it has one, more where shapes vary."""
    known = compilers()[option.compiler].compiling if option.compiler else None
    seconds = option.compile_seconds if known is None else Range(*map(float, known.seconds))
    if seconds is None:
        return NOTHING
    return Range(seconds.low, seconds.high * RECOMPILED.get(facts.shapes.value or "", 20))


def share_of(parts: Mapping[Part, Range], attacked: tuple[Part, ...]) -> Range:
    """The share of a step that these parts take, given that all parts add up to one."""
    own = [parts[part] for part in parts if part in attacked]
    others = [parts[part] for part in parts if part not in attacked]
    low = max(sum(each.low for each in own), 1.0 - sum(each.high for each in others))
    high = min(sum(each.high for each in own), 1.0 - sum(each.low for each in others))
    low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
    return Range(min(low, high), high) if own else NOTHING


# What can run, by the catalog, and AWS's tests.


def findings(facts: Facts, option: Option) -> dict[str, Finding]:
    """What the catalog has against an option's compiler, by code: on the present instance, or on
    the one that the option moves to, at a precision that it would be given there."""
    if option.compiler is None:
        return {}
    framework = facts.framework.value or facts.asked.framework
    # Other compilers bring images of their own.
    of_torch = option.compiler in ("inductor", "torch-compile")
    same = of_torch and framework == facts.asked.framework
    precision = facts.precision
    if (option.needs_half and precision == "bf16") or (option.name, precision) == (
        "neuron",
        "fp16",
    ):
        precision = "fp16" if option.needs_half else "bf16"
    asked = replace(
        facts.asked,
        compiler=option.compiler,
        backend=option.backend or ("inductor" if of_torch else None),
        framework=framework,
        version=facts.asked.version if same else None,
        image=facts.asked.image if same else None,
        transformers=None,
        instance_type=next(iter(option.instance_types), facts.instance_type),
        precision=precision,
        distribution=None,
        launches_itself=True,
        extends_image=False,
    )
    return {each.code: each for each in check(asked)}


def newer_instances(facts: Facts) -> tuple[tuple[str, ...], str]:
    """Those that come next, on which every arm of the file can run; and why others are left out."""
    found, left_out = [], []
    for name in upgrades(instance_class(facts.instance_type)):
        asked = (replace(each, instance_type=name) for each in facts.needs)
        refused = [it for each in asked for it in check(each) if it.severity == "refusal"]
        if refused:
            left_out.append(refused[0].reason)
        else:
            found.append(name)
    return tuple(found), "; ".join(left_out)


def next_instance(facts: Facts) -> tuple[str, float | None] | None:
    """The newer instance that a job would take, with as many accelerators where there is such a
    one, else the cheapest; and its price as a multiple of the present one."""
    found = []
    for name in newer_instances(facts)[0]:
        new, now = instance_of(name), facts.usd_per_run_hour
        each = 1 if new is None else new.accelerators
        count = max(1, -(-facts.accelerators // each))
        price = price_near(name, facts.asked.region).value
        factor = price * count / now if price and now else math.inf
        found.append((count * each != facts.accelerators, factor, f"{count} x {name}"))
    if not found:
        return None
    _, factor, name = min(found)
    return name, factor if factor < math.inf else None


class TestedRow(NamedTuple):
    """The nearest of AWS's tests of the workload's model."""

    batch_native: int | None
    comparable: bool
    """Whether a batch that fitted there fits here: the accelerator and the precision are the same,
    and sequences no longer."""
    differences: int
    sentence: str
    """What fitted, which says nothing of speed, and in what the test differs from the workload."""


def tested_row(facts: Facts) -> TestedRow | None:
    """The nearest row of the model, of its own framework if there is one."""
    if facts.model is None:
        return None
    rows = rows_of(facts.model, facts.framework.value) or rows_of(facts.model)
    found = [_compared(facts, row) for row in rows if row.batch_of == "GPU"]
    return min(found, key=lambda each: (not each.comparable, each.differences), default=None)


def _compared(facts: Facts, row: TestedModel) -> TestedRow:
    same = accelerator_of(facts.instance_type) == accelerator_of(row.instance_type)
    half = row.half_precision == (facts.precision in HALF)
    length, tokens, fitted = facts.sequence_length, row.sequence_length, row.batch_native
    differ = {
        f"trains with {facts.framework.value}": row.framework != facts.framework.value,
        f"trains on {facts.instance_type}": not same,
        f"trains in {facts.precision}": not half or facts.precision == "bf16",
        f"has {length or 'an unknown number of'} tokens": tokens not in (None, length),
        f"has a batch of {facts.batch_size}": facts.batch_size not in (fitted, row.batch_compiler),
    }
    but = [words for words, differs in differ.items() if differs]
    shorter = tokens is not None and (length is None or length > tokens)
    return TestedRow(
        batch_native=fitted,
        comparable=same and half and not shorter,
        differences=len(but),
        sentence=f"AWS's tested-models row of {row.model} ({row.stack}, {row.instance_type}, "
        f"{row.precision}{'' if tokens is None else f', {tokens} tokens'}): a batch of "
        f"{row.batch_compiler} fits{'' if fitted is None else f' instead of {fitted}'}"
        f"{'; but this ' * bool(but)}{', '.join(but)}",
    )


# What that saves.

Ends = tuple[int | None, int | None]
"""At best and at worst; None for never."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an option is expected to change, each as a range. Positive is saved. None: a fact that
    it follows from is not known."""

    effect: Effect
    speedup: Range
    """The whole run without compiling, old time over new."""
    saved_share: Range
    """The share of a run's time; compiling is taken off where a run's length is known."""
    saved_hours: Range | None
    saved_usd: Range | None
    saved_usd_per_year: Range | None
    first_year_usd: Range | None
    """After the benchmark, people included."""
    benchmark_jobs: int
    """Beyond the one job of the baseline that would run anyway; 0: it has been made already."""
    benchmark_hours: Range | None
    benchmark_usd: Range | None
    """Machines and people."""
    engineer_hours: Range
    runs_to_repay: Ends | None
    """Runs until the benchmark is repaid."""
    steps_to_repay: Ends | None
    """Steps until compiling is; None also where no execution timed a step on this machine."""


def outcome_of(facts: Facts, effect: Effect, *, arms: int, engineer_hours: Range) -> Outcome:
    """The outcome of an effect for a workload; `arms` is how many a benchmark trains besides the
    baseline, 0 where it has been made already."""
    ratio, hours, price = effect.time_ratio, facts.hours.value, facts.usd_per_run_hour
    compiling, factor = effect.compile_seconds.times(1 / 3600), effect.price_factor
    rate = rules().thresholds.usd_per_engineer_hour
    if facts.usd_per_engineer_hour is not None:
        rate = Range(facts.usd_per_engineer_hour, facts.usd_per_engineer_hour)
    if facts.engineer_hours is not None and arms:
        engineer_hours = Range(facts.engineer_hours, facts.engineer_hours)
    more, again = arms * facts.seeds, (facts.seeds - 1) * bool(arms)
    share = Range(1.0 - ratio.high, 1.0 - ratio.low)
    saved = dollars = spent = cost = None
    if hours is not None:
        corners = (hours, ratio, compiling)
        saved = over_corners(lambda run, new, extra: run - run * new - extra, *corners)
        share = over_corners(lambda run, new, extra: 1.0 - new - extra / run, *corners)
        old, new = hours.times(again), (hours.times(ratio) + compiling).times(more)
        spent = old + new
        if price is not None:
            dollars = over_corners(
                lambda run, new, extra, factor: price * (run - (run * new + extra) * factor),
                *corners,
                factor,
            )
            cost = (old + new.times(factor)).times(price)
    total = engineer_hours.times(rate) + cost if cost is not None else None
    runs, timing = facts.runs_per_week.value, facts.timed_here
    yearly = None if dollars is None or runs is None else dollars.times(runs * WEEKS_PER_YEAR)
    step = None if timing is None else timing.step_seconds
    a_step = None if step is None else Range(1.0 - ratio.high, 1.0 - ratio.low).times(step)
    compiles = effect.compile_seconds != NOTHING
    return Outcome(
        effect=effect,
        speedup=effect.whole_speedup,
        saved_share=share,
        saved_hours=saved,
        saved_usd=dollars,
        saved_usd_per_year=yearly,
        first_year_usd=None if yearly is None or total is None else yearly - total,
        benchmark_jobs=more + again,
        benchmark_hours=spent,
        benchmark_usd=total,
        engineer_hours=engineer_hours,
        runs_to_repay=None if total is None or dollars is None else repaid(total, dollars),
        steps_to_repay=repaid(effect.compile_seconds, a_step) if compiles and a_step else None,
    )


def repaid(cost: Range, saved: Range) -> Ends:
    """How many times something has to be saved to make up for a cost."""

    def count(cost: float, saved: float) -> int | None:
        if cost <= 0.0 <= saved:
            return 0
        return None if saved <= 0.0 or cost / MOST_RUNS > saved else math.ceil(cost / saved)

    return count(cost.low, saved.high), count(cost.high, saved.low)
