"""What an option is expected to do to a run: by executions of the workload, then of others, then by
what was published or is assumed; and what that saves. Pure.

Only the parts of a step that an option attacks get faster (Amdahl's law). A saving is after the
option's own compilation; a benchmark trains every arm with every seed of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

from compilegate.advice.facts import HALF, Experience, Facts, price_near
from compilegate.advice.rules import NOTHING, UNCHANGED, Option, Part, Range, over_corners, rules
from compilegate.catalog import Finding, check
from compilegate.catalog.compilers import compilers, upgrades
from compilegate.catalog.instances import accelerator_of, instance_class, instance_of, processor_of
from compilegate.catalog.tested_models import rows_of

WEEKS_PER_YEAR = 365 / 7
RECOMPILED = {"static": 1, "few": 4}
"""How many times as long compiling may take by the shapes; 20 where they vary. Guesses."""
MOST_RUNS = 1_000_000
"""Retrainings above this count as never."""


class Basis(StrEnum):
    MEASURED = "an execution here"
    SIMILAR = "executions of other workloads"
    OTHER_CONDITIONS = "an execution under other conditions, and a rule of thumb"
    PUBLISHED = "a rule of thumb from published figures"
    ASSUMED = "a rule of thumb, assumed"


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What an option does to a run, and where that comes from."""

    basis: Basis
    sentence: str  # what was measured, published or assumed; without a full stop
    speedup: Range  # how many times as fast the attacked share gets
    attacked: Range = UNCHANGED  # the share of a run that gets faster, from 0 to 1
    compile_seconds: Range = NOTHING

    @property
    def time_ratio(self) -> Range:
        """New time over old, without compiling."""
        new = lambda share, speedup: 1.0 - share + share / speedup  # noqa: E731
        return over_corners(new, self.attacked, self.speedup)

    @property
    def whole_speedup(self) -> Range:
        """The speed-up of a whole run, without compiling."""
        return Range(1 / self.time_ratio.high, 1 / self.time_ratio.low)


# By what executions measured.


def expected(facts: Facts, option: Option, experiences: Sequence[Experience]) -> Effect | None:
    """What is expected of an option; None where nothing is known of it."""
    prior = prior_of(facts, option)
    if (here := own_experience(facts, option.name, experiences)) is not None:
        return _measured([here], Basis.MEASURED, _words(here), prior)
    of_option = [each for each in experiences if each.option == option.name]
    if similar := [each for each in of_option if each.resembles(facts)]:
        return _measured(similar, Basis.SIMILAR, _words_of_others(similar, facts), prior)
    nearest = latest([each for each in of_option if each.workload == facts.workload])
    if nearest is None or prior is None:
        return prior
    there = not nearest.machine.is_that_of(facts.instance_type)
    but = ", ".join(["on another machine"] * there + [*nearest.differences(facts)])
    sentence = f"{_words(nearest)}, but {but}; {prior.sentence}"
    own = _measured([nearest], Basis.OTHER_CONDITIONS, sentence, prior)
    return replace(
        own,
        speedup=own.speedup.hull(prior.whole_speedup),
        compile_seconds=own.compile_seconds.hull(prior.compile_seconds),
    )


def own_experience(facts: Facts, name: str, found: Sequence[Experience]) -> Experience | None:
    """What the newest execution of the workload measured of an option: on its own machine, with
    the baseline as it is now."""
    own = [it for it in found if (it.option, it.workload) == (name, facts.workload)]
    same = [it for it in own if not it.differences(facts)]
    return latest([it for it in same if it.machine.is_that_of(facts.instance_type)])


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
    compiling = [each.compile_seconds for each in found if each.compile_seconds is not None]
    compiling = compiling or [NOTHING if prior is None else prior.compile_seconds]
    speedup = found[0].speedup.hull(*(each.speedup for each in found))
    seconds = compiling[0].hull(*compiling)
    return Effect(basis=basis, sentence=sentence, speedup=speedup, compile_seconds=seconds)


def _words(one: Experience) -> str:
    batch = "" if one.same_batch else ", which has another batch,"
    return (
        f"execution {one.execution} measured {one.speedup.low:.2f} to {one.speedup.high:.2f} times "
        f"with arm {one.arm}{batch} on {one.machine.words}; the gate's verdict was {one.outcome}"
    )


def _words_of_others(found: Sequence[Experience], facts: Facts) -> str:
    workloads = ", ".join(sorted({each.workload for each in found}))
    least = rules().thresholds["off_speedup"]
    fast = f"{sum(each.speedup.low >= least for each in found)} of {len(found)}"
    but = ", ".join(dict.fromkeys(word for each in found for word in each.differences(facts)))
    alike = f"{workloads}, of the same model family, shapes, precision and instance"
    return f"{alike}: {fast} were surely {least:.2f} times as fast{but and f'; they trained {but}'}"


# By what is published or assumed.


def prior_of(facts: Facts, option: Option) -> Effect | None:
    """What was published or is assumed, before anything was executed; None where nothing was."""
    if option.kind == "none":
        return Effect(basis=Basis.ASSUMED, sentence="nothing changes", speedup=UNCHANGED)
    if option.speedup is None:
        return None
    speedup, basis, sentence = _by_figures(facts, option, option.speedup)
    attacked = share_of(facts.parts, option.attacks)
    if option.kind == "trees":
        attacked = Range(rules().thresholds["bottleneck_share"], 1.0)
    known = compilers()[option.compiler].compiling if option.compiler else None
    # The catalog's figure where it has one, more where shapes vary.
    seconds = option.compile_seconds if known is None else Range(*map(float, known.seconds))
    again = RECOMPILED.get(facts.shapes.value or "", 20)
    return Effect(
        basis=basis,
        sentence=sentence,
        speedup=speedup,
        attacked=attacked,
        compile_seconds=Range(seconds.low, seconds.high * again),
    )


def _by_figures(facts: Facts, option: Option, usual: Range) -> tuple[Range, Basis, str]:
    """Figures of another precision, family or machine are not taken for this one's; where they are
    all there is, the answer says what they are of."""
    shapes, family, varying = facts.shapes.value, facts.family.value, None
    holds = {
        "varying": shapes == "varying",
        "cpu": processor_of(facts.instance_type) == "cpu",
        "fp32": facts.precision == "fp32",
        "untested": "untested-model" in findings(facts, option),
        "family": family not in (*option.families, None),
    }
    for each in option.instead:
        varying = each.speedup if each.when == "varying" else varying
        if holds[each.when] and each.speedup is not None:
            basis = Basis.PUBLISHED if each.published else Basis.ASSUMED
            return each.speedup, basis, (each.published or each.assumed).format(family=family)
    sentence = option.published or f"assumed: {option.assumed}"
    if option.figures_of is not None and facts.precision == "bf16":
        sentence += f"; all of it is of {option.figures_of}, and this trains in bf16"
    if varying is not None and shapes is None:
        usual = usual.hull(varying)
        sentence += "; widened, since shapes are not known"
    return usual, Basis.PUBLISHED if option.published else Basis.ASSUMED, sentence


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
    framework = facts.framework.value or facts.settings.framework
    # Other compilers bring images of their own.
    of_torch = option.compiler in ("inductor", "torch-compile")
    same = of_torch and framework == facts.settings.framework
    given = {("training-compiler", "bf16"): "fp16", ("neuron", "fp16"): "bf16"}
    settings = replace(
        facts.settings,
        compiler=option.compiler,
        backend=option.backend or ("inductor" if of_torch else None),
        framework=framework,
        version=facts.settings.version if same else None,
        image=facts.settings.image if same else None,
        transformers=None,
        instance_type=option.instance_type or facts.instance_type,
        precision=given.get((option.name, facts.precision), facts.precision),
        distribution=None,
        launches_itself=True,
        extends_image=False,
    )
    return {each.code: each for each in check(settings)}


def next_instance(facts: Facts) -> tuple[str | None, str]:
    """The cheapest of the newer instances on which every arm of the file can run, for a job with as
    many accelerators or more; and what it costs, or why there is none."""
    found, refused, now = [], [], facts.usd_per_run_hour
    here = instance_of(facts.instance_type)
    wanted = facts.instances * (1 if here is None else here.accelerators)
    for name in upgrades(instance_class(facts.instance_type)):
        settings = (replace(each, instance_type=name) for each in facts.needs)
        against = [it.reason for each in settings for it in check(each) if it.severity == "refusal"]
        refused += against[:1]
        new, price = instance_of(name), price_near(name, facts.settings.region).value
        count = math.ceil(wanted / (1 if new is None else new.accelerators))
        factor = price * count / now if price and now else math.inf
        found += [] if against else [(factor, f"{count} x {name}")]
    if not found:
        return None, "; ".join(refused) or f"the catalog has none after {facts.instance_type}"
    factor, name = min(found)
    times = f"{factor:.2f} times"
    costs = f"{times} the price an hour, which pays where it is {times} as fast or more"
    return name, "at a price that is not known" if factor == math.inf else costs


def tested_row(facts: Facts) -> tuple[int | None, str] | None:
    """The nearest of AWS's tests of the workload's model, of its own framework if there is one. The
    batch that fitted, where it fits here: the accelerator and the precision are the same, and
    sequences no longer. And what was tested, which says nothing of speed, and in what it differs
    from the workload."""
    found, length, here = [], facts.sequence_length, accelerator_of(facts.instance_type)
    rows = (
        [] if facts.settings.model is None else rows_of(facts.settings.model, facts.framework.value)
    )
    for row in rows or rows_of(facts.settings.model or ""):
        same, tokens, batches = here == accelerator_of(row.instance_type), row.sequence_length, ""
        half = row.half_precision == (facts.precision in HALF)
        fitted = (row.batch_native, row.batch_compiler)
        differ = {
            f"trains with {facts.framework.value}": row.framework != facts.framework.value,
            f"trains on {facts.instance_type}": not same,
            f"trains in {facts.precision}": not half or facts.precision == "bf16",
            f"has {length or 'an unknown number of'} tokens": tokens not in (None, length),
            f"has a batch of {facts.batch_size}": facts.batch_size not in fitted,
        }
        but = [words for words, differs in differ.items() if differs]
        comparable = same and half and (tokens is None or (length is not None and length <= tokens))
        about = f"{row.stack}, {row.instance_type}, {row.precision}"
        about += "" if tokens is None else f", {tokens} tokens"
        batches = f"a batch of {row.batch_compiler} fits"
        batches += "" if row.batch_native is None else f" instead of {row.batch_native}"
        batches += f"{'; but this ' * bool(but)}{', '.join(but)}"
        sentence = f"AWS's tested-models row of {row.model} ({about}): {batches}"
        if row.batch_of == "GPU":
            found.append((not comparable, len(but), row.batch_native, sentence))
    best = min(found, key=lambda each: each[:2], default=None)
    return None if best is None else (None if best[0] else best[2], best[3])


# What that saves.


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an option is expected to change, each as a range. Positive is saved. None: a fact that
    it follows from is not known."""

    effect: Effect
    saved_share: Range
    """The share of a run's time; compiling is taken off where a run's length is known."""
    saved_hours: Range | None = None
    saved_usd: Range | None = None
    saved_usd_per_year: Range | None = None
    first_year_usd: Range | None = None  # after the benchmark, people included
    benchmark_jobs: int  # beyond the baseline's own; 0 when the benchmark has been run already
    benchmark_hours: Range | None = None
    benchmark_usd: Range | None = None
    engineer_hours: float
    runs_to_repay: tuple[int | None, int | None] | None = None
    """The benchmark, at best and at worst; None for never."""


def outcome_of(facts: Facts, effect: Effect, *, arms: int, engineer_hours: float) -> Outcome:
    """The outcome of an effect for a workload; `arms` is how many a benchmark trains besides the
    baseline, 0 where it has been made already."""
    ratio, hours, price = effect.time_ratio, facts.hours.value, facts.usd_per_run_hour
    compiling, runs = effect.compile_seconds.times(1 / 3600), facts.runs_per_week.value
    if facts.engineer_hours is not None and arms:
        engineer_hours = facts.engineer_hours
    more, again = arms * facts.seeds, (facts.seeds - 1) * bool(arms)
    share = Range(1.0 - ratio.high, 1.0 - ratio.low)
    untimed = Outcome(
        effect=effect, saved_share=share, benchmark_jobs=more + again, engineer_hours=engineer_hours
    )
    if hours is None:
        return untimed
    corners = (hours, ratio, compiling)
    saved = over_corners(lambda run, new, extra: run - run * new - extra, *corners)
    share = over_corners(lambda run, new, extra: 1.0 - new - extra / run, *corners)
    spent = hours.times(again) + (hours.times(ratio) + compiling).times(more)
    timed = replace(untimed, saved_share=share, saved_hours=saved, benchmark_hours=spent)
    if price is None:
        return timed
    people = engineer_hours * rules().thresholds["usd_per_engineer_hour"]
    dollars, cost = saved.times(price), spent.times(price) + Range(people, people)
    yearly = None if runs is None else dollars.times(runs * WEEKS_PER_YEAR)
    return replace(
        timed,
        saved_usd=dollars,
        saved_usd_per_year=yearly,
        first_year_usd=None if yearly is None else yearly - cost,
        benchmark_usd=cost,
        runs_to_repay=(_runs(cost.low, dollars.high), _runs(cost.high, dollars.low)),
    )


def _runs(cost: float, saved: float) -> int | None:
    """How many runs make up for a cost; None for never."""
    return None if saved <= 0.0 or cost > MOST_RUNS * saved else math.ceil(cost / saved)
