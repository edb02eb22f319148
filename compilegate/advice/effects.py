"""What an option is expected to do to a run: from executions where there are some, else from what
was published or is assumed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from compilegate.advice.considering import HALF_PRECISIONS
from compilegate.advice.fitting import tested_rows
from compilegate.advice.known.experience import Experience, latest
from compilegate.advice.known.facts import Facts
from compilegate.advice.outcome import Effect, share_of, time_ratio
from compilegate.advice.ranges import NOTHING, UNCHANGED, Range
from compilegate.advice.rules import Option, Peak, rules
from compilegate.catalog.compilers import upgrades
from compilegate.catalog.instances import instance_class, instance_of
from compilegate.catalog.prices import Price, price_of
from compilegate.catalog.tested_models import TestedModel, tested_models

SEVERAL_SHAPES = 4
"""How many shapes are compiled where there are a few; a guess."""
RECOMPILATIONS = 20
"""How many times as long compiling may take where shapes vary; a guess."""


class Basis(StrEnum):
    """What an expected outcome rests on."""

    MEASURED = "measured"
    """Executions of this workload on this machine."""
    SIMILAR = "measured on similar workloads"
    ELSEWHERE = "measured on another machine, and widened by what was published"
    PUBLISHED = "published"
    ASSUMED = "assumed"


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """An effect, and where it comes from."""

    effect: Effect
    basis: Basis
    sentence: str
    """What was measured, published or assumed; without a full stop."""
    on: str | None = None
    """The instances that the option runs on, where they are others."""
    alike: bool = True
    """Whether those have as many accelerators as the present ones."""
    instances: int = 1
    """How many of those there are."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What the priors said of a speed-up, beside what an execution measured."""

    execution: str
    arm: str
    machine: str
    predicted: Range
    measured: Range
    outcome: str

    @property
    def overlap(self) -> bool:
        """Whether the two have a value in common."""
        return self.predicted.low <= self.measured.high and self.measured.low <= self.predicted.high


def expected(facts: Facts, option: Option, experiences: Sequence[Experience]) -> Expectation | None:
    """The expectation of an option; None where nothing can be said."""
    prior = prior_of(facts, option)
    of_option = [each for each in experiences if each.option == option.name]
    own = [each for each in of_option if each.workload == facts.workload]
    here = latest([each for each in own if each.ran_on(facts)])
    if here is not None:
        return _measured(here, Basis.MEASURED, prior)
    similar = [
        each for each in of_option if each.workload != facts.workload and each.resembles(facts)
    ]
    if similar:
        return _similar(similar, prior)
    elsewhere = latest(own)
    if elsewhere is not None and prior is not None:
        return _elsewhere(elsewhere, prior)
    return prior


def predictions(
    facts: Facts, option: Option, experiences: Sequence[Experience]
) -> tuple[Prediction, ...]:
    """What the priors said of every execution of the workload, and what it measured."""
    prior = prior_of(facts, option)
    if prior is None:
        return ()
    ratio = whole_speedup(prior.effect)
    return tuple(
        Prediction(
            execution=each.execution,
            arm=each.arm,
            machine=each.machine,
            predicted=ratio,
            measured=each.speedup,
            outcome=each.outcome,
        )
        for each in sorted(experiences, key=lambda each: each.started, reverse=True)
        if each.option == option.name and each.workload == facts.workload
    )


def whole_speedup(effect: Effect) -> Range:
    """The speed-up of a whole step."""
    ratio = time_ratio(effect)
    return Range(1 / ratio.high, 1 / ratio.low)


def _measured(found: Experience, basis: Basis, prior: Expectation | None) -> Expectation:
    compiling = found.compile_seconds
    if compiling is None:
        compiling = NOTHING if prior is None else prior.effect.compile_seconds
    return Expectation(
        effect=Effect(attacked=UNCHANGED, speedup=found.speedup, compile_seconds=compiling),
        basis=basis,
        sentence=f"execution {found.execution} measured {_times(found.speedup)} with arm "
        f"{found.arm} on {found.machine}; the gate said {found.outcome}",
    )


def _similar(found: Sequence[Experience], prior: Expectation | None) -> Expectation:
    """The hull of all: workloads differ among themselves, and the next one may lie beyond."""
    speedup = found[0].speedup
    compiling = found[0].compile_seconds
    for each in found[1:]:
        speedup = speedup.hull(each.speedup)
        if each.compile_seconds is not None:
            compiling = each.compile_seconds.hull(compiling or each.compile_seconds)
    if compiling is None:
        compiling = NOTHING if prior is None else prior.effect.compile_seconds
    workloads = ", ".join(sorted({each.workload for each in found}))
    return Expectation(
        effect=Effect(attacked=UNCHANGED, speedup=speedup, compile_seconds=compiling),
        basis=Basis.SIMILAR,
        sentence=f"{_times(speedup)} in executions of {workloads}, which has the same model "
        "family, shapes, precision and instance",
    )


def _elsewhere(found: Experience, prior: Expectation) -> Expectation:
    own = _measured(found, Basis.ELSEWHERE, prior)
    published = whole_speedup(prior.effect)
    return Expectation(
        effect=Effect(
            attacked=UNCHANGED,
            speedup=own.effect.speedup.hull(published),
            compile_seconds=own.effect.compile_seconds.hull(prior.effect.compile_seconds),
            price_factor=prior.effect.price_factor,
            price_known=prior.effect.price_known,
        ),
        basis=Basis.ELSEWHERE,
        sentence=f"{own.sentence}, which is another machine; {prior.sentence}",
        on=prior.on,
    )


def _times(speedup: Range) -> str:
    return f"{speedup.low:.2f} to {speedup.high:.2f} times"


def prior_of(facts: Facts, option: Option) -> Expectation | None:
    """What was published or is assumed, before anything was executed; None where nothing was."""
    if option.kind == "none":
        return UNCHANGED_RUN
    if option.kind in _OF_KIND:
        return _OF_KIND[option.kind](facts, option)
    if option.instance_types:
        return _other_instance(facts, option, option.instance_types)
    return None if option.speedup is None else _by_figures(facts, option)


UNCHANGED_RUN = Expectation(
    effect=Effect(attacked=NOTHING, speedup=UNCHANGED),
    basis=Basis.ASSUMED,
    sentence="nothing changes",
)


def _by_figures(facts: Facts, option: Option) -> Expectation:
    speedup, basis, sentence = _speedup(facts, option)
    return Expectation(
        effect=Effect(
            attacked=share_of(facts.parts, option.attacks),
            speedup=speedup,
            compile_seconds=_compiling(facts, option),
        ),
        basis=basis,
        sentence=sentence,
    )


def _speedup(facts: Facts, option: Option) -> tuple[Range, Basis, str]:
    usual = option.speedup or UNCHANGED
    shapes = facts.shapes.value
    if option.varying_speedup is not None and shapes == "varying":
        return (
            option.varying_speedup,
            Basis.ASSUMED,
            "shapes vary, so that it compiles again",
        )
    if option.fp32_speedup is not None and facts.precision.value == "fp32":
        return option.fp32_speedup, Basis.PUBLISHED, option.fp32_because or ""
    if option.untested_speedup is not None and not tested_rows(facts):
        return option.untested_speedup, Basis.PUBLISHED, option.untested_because or ""
    found, open_to = usual, []
    if option.fp32_speedup is not None and facts.precision.value is None:
        found = found.hull(option.fp32_speedup)
        open_to.append("precision")
    if option.varying_speedup is not None and shapes is None:
        found = found.hull(option.varying_speedup)
        open_to.append("shapes")
    said = _said(option)
    if open_to:
        said.append(f"widened, since {' and '.join(open_to)} is not known")
    basis = Basis.PUBLISHED if option.published else Basis.ASSUMED
    return found, basis, "; ".join(said)


def _said(option: Option) -> list[str]:
    """What the usual range rests on."""
    if option.published is None:
        return [option.assumed or ""]
    return [option.published, *([f"assumed: {option.assumed}"] if option.assumed else [])]


def _compiling(facts: Facts, option: Option) -> Range:
    seconds = option.compile_seconds
    if seconds is None:
        return NOTHING
    if facts.shapes.value == "static":
        return seconds
    times = SEVERAL_SHAPES if facts.shapes.value == "few" else RECOMPILATIONS
    return Range(seconds.low, seconds.high * times)


def _spot(facts: Facts, option: Option) -> Expectation:
    slower = option.slower or UNCHANGED
    return Expectation(
        effect=Effect(
            attacked=UNCHANGED,
            speedup=Range(1 / slower.high, 1 / slower.low),
            price_factor=option.price_factor or UNCHANGED,
        ),
        basis=Basis.PUBLISHED,
        sentence="; ".join(_said(option)),
    )


def _trees(facts: Facts, option: Option) -> Expectation:
    instances = Range.exactly(float(option.instances_factor))
    said = _said(option)
    speedup = option.speedup or UNCHANGED
    if option.name == "tree-method" and facts.tree_method is None:
        speedup = speedup.hull(UNCHANGED)
        said.append("or nothing: it is the default since XGBoost 2.0, and the file sets no method")
    return Expectation(
        effect=Effect(
            attacked=rules().thresholds.bottleneck_share,
            speedup=speedup,
            price_factor=option.price_factor or instances,
        ),
        basis=Basis.PUBLISHED if option.published else Basis.ASSUMED,
        sentence="; ".join(said),
    )


def _other_instance(facts: Facts, option: Option, names: Sequence[str]) -> Expectation | None:
    """The instance that costs a run least, at worst; None where the catalog has no figures."""
    all_of_them = [
        expectation for name in names if (expectation := _on(facts, option, name)) is not None
    ]
    # One GPU for one GPU, where there is such an instance: whether a job of one makes use of eight
    # is another question.
    alike = [each for each in all_of_them if each.alike] or all_of_them
    as_few = [each for each in alike if each.instances <= facts.instances] or alike
    return max(as_few, key=_promise, default=None)


def _promise(expectation: Expectation) -> float:
    """What a run costs at worst, turned round; what has no price comes last."""
    effect = expectation.effect
    if not effect.price_known:
        return -1e9
    return -time_ratio(effect).high * effect.price_factor.high


def _on(facts: Facts, option: Option, name: str) -> Expectation | None:
    present, new = instance_of(facts.instance_type or ""), instance_of(name)
    if present is None or new is None:
        return None
    peaks = rules().peaks
    before, after = peaks.get(present.accelerator.name), peaks.get(new.accelerator.name)
    if before is None or after is None:
        return None
    # At the same number of accelerators, or on one instance that has more.
    count = max(1, -(-facts.accelerators // new.accelerators))
    more = count * new.accelerators / facts.accelerators
    speedup = _by_data_sheet(before, after, option).times(Range(1.0, more))
    price, now = price_of(name), facts.usd_per_run_hour
    known = isinstance(price, Price) and bool(now)
    factor = price.usd_per_hour * count / now if isinstance(price, Price) and now else 1.0
    return Expectation(
        effect=Effect(
            attacked=share_of(facts.parts, option.attacks),
            speedup=speedup,
            compile_seconds=_compiling(facts, option),
            price_factor=Range.exactly(factor),
            price_known=known,
        ),
        basis=Basis.ASSUMED,
        sentence="; ".join(_said(option)),
        on=f"{count} x {name}",
        alike=more == 1,
        instances=count,
    )


def _by_data_sheet(before: Peak, after: Peak, option: Option) -> Range:
    ratios = (
        after.tflops / before.tflops,
        after.gigabytes_per_second / before.gigabytes_per_second,
    )
    return Range(min(ratios), max(ratios)).times(option.reached or UNCHANGED)


def _newer_instance(facts: Facts, option: Option) -> Expectation | None:
    return _other_instance(facts, option, upgrades(instance_class(facts.instance_type or "")))


_OF_KIND: dict[str, Callable[[Facts, Option], Expectation | None]] = {
    "machine": _newer_instance,
    "money": _spot,
    "trees": _trees,
}


@dataclass(frozen=True, kw_only=True)
class MemoryPrior:
    """How much larger a batch fits with Training Compiler, by AWS's tests."""

    ratio: Range
    tests: int
    of: str
    """Which tests, in words."""


def memory_prior(facts: Facts) -> MemoryPrior | None:
    """The largest batch with Training Compiler over that without, in AWS's tests: of the model,
    else of its framework and task on the same class of instance. None where there are none."""
    own = _ratios(tested_rows(facts))
    if own:
        return MemoryPrior(ratio=Range(min(own), max(own)), tests=len(own), of=f"{facts.model}")
    task = {"transformer": "language", "vision": "vision"}.get(facts.family.value or "")
    class_ = instance_class(facts.instance_type or "")
    alike = [
        row
        for row in tested_models()
        if row.framework == facts.framework.value
        and row.task == task
        and instance_class(row.instance_type) == class_
    ]
    ratios = _ratios(alike)
    if not ratios:
        return None
    return MemoryPrior(
        ratio=Range(min(ratios), max(ratios)),
        tests=len(ratios),
        of=f"{task} models of {facts.framework.value} on {class_}",
    )


def _ratios(rows: Sequence[TestedModel]) -> list[float]:
    return [
        row.batch_compiler / row.batch_native
        for row in rows
        if row.batch_native and row.batch_of == "GPU"
    ]


def in_half(facts: Facts) -> bool:
    """Whether the baseline computes in 16 bits already."""
    return facts.precision.value in HALF_PRECISIONS
