"""Splits a candidate's difference: what the compiler makes of it, and what the rest of its recipe.

A compiler-only candidate has the baseline's batch size, learning rate and precision: it differs
from the baseline by its compiler alone. A candidate with the same compiler and another recipe then
differs from it by that recipe alone, and its difference from the baseline is the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from compilegate.gate.judgements import EffectSplit, Interval, MetricJudgement
from compilegate.gate.quality.compared_arms import Contrast
from compilegate.gate.quality.units import Unit, unit_of
from compilegate.gate.reasons import Code, Note
from compilegate.gate.settings import DECLARED, ArmDeclaration, Experiment


def find_compiler_only(experiment: Experiment, comparable: Sequence[str]) -> dict[str, str]:
    """For each candidate that has one among the arms that can be compared, the compiler-only one
    with the same compiler."""
    if not experiment.arms:
        return {}
    baseline = experiment.arms[experiment.baseline]
    found = {
        experiment.arms[name].compiler: name
        for name in reversed(comparable)
        if not changed_keys(baseline, experiment.arms[name])
    }
    return {
        name: found[experiment.arms[name].compiler]
        for name in comparable
        if changed_keys(baseline, experiment.arms[name]) and experiment.arms[name].compiler in found
    }


def changed_keys(before: ArmDeclaration, after: ArmDeclaration) -> tuple[str, ...]:
    """The declared keys, besides the compiler, in which two arms differ."""
    return tuple(key for key in DECLARED if getattr(before, key) != getattr(after, key))


def split_effect(
    contrast: Contrast,
    compiler_only: str,
    by_compiler: MetricJudgement,
    declarations: tuple[ArmDeclaration, ArmDeclaration],
    confidence: float,
) -> tuple[EffectSplit, Note]:
    """Split one metric's difference; `declarations` are those of the compiler-only candidate
    and of the candidate itself."""
    difference = contrast.difference
    half_width = difference.half_width(confidence)
    before, after = declarations
    changed = tuple(f"{key} {_shown(getattr(after, key))}" for key in changed_keys(before, after))
    effect = EffectSplit(
        metric=contrast.metric,
        compiler_only=compiler_only,
        compiler=by_compiler.delta,
        rest=Interval(difference.mean, difference.mean - half_width, difference.mean + half_width),
        changed=changed,
    )
    higher = by_compiler.direction == "higher"
    unit = unit_of(contrast.metric)
    sentence = (
        f"{contrast.metric}: the compiler {_costs(effect.compiler, unit, higher=higher)} "
        f"(measured by {compiler_only}), and {', '.join(changed)} "
        f"{_costs(effect.rest, unit, higher=higher)}."
    )
    return effect, Note(Code.EFFECT_SPLIT, sentence, {"metric": contrast.metric})


def _costs(effect: Interval, unit: Unit, *, higher: bool) -> str:
    cost = -effect.estimate if higher else effect.estimate
    if effect.lower == effect.upper:
        return f"makes {unit.amount(effect.estimate, signed=True)}, with unknown bounds"
    between = (
        f"{unit.amount(effect.estimate, signed=True)}, between "
        f"{unit.number(effect.lower, signed=True)} and {unit.number(effect.upper, signed=True)}"
    )
    if effect.lower <= 0.0 <= effect.upper:
        return f"costs nothing that can be told from chance ({between})"
    verb = "costs" if cost > 0.0 else "gains"
    return f"{verb} {unit.amount(abs(cost))} ({between})"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
