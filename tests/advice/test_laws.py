"""Laws that advice keeps, whatever is known."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.advice.effects import Basis, Effect, outcome_of, share_of
from compilegate.advice.facts import Fact, Facts, parts_of_step
from compilegate.advice.judge import Stance, Verdict, advise, rank
from compilegate.advice.render import advice_document, advice_text, in_the_way, portfolio_text
from compilegate.advice.rules import PARTS, Part, Range, rules
from compilegate.workload.declaration.advice import Bottleneck
from tests.advice.declared import experience, known

pytestmark = pytest.mark.slow

INSTANCES = ("ml.g5.48xlarge", "ml.p4d.24xlarge", "ml.g6.xlarge", "ml.m5.xlarge", "ml.trn1.2xlarge")


@st.composite
def ranges(draw: st.DrawFn, ends: st.SearchStrategy[float]) -> Range:
    low, high = sorted((draw(ends), draw(ends)))
    return Range(low, high)


BOTTLENECKS = st.none() | st.sampled_from(get_args(Bottleneck))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    return known(tmp_path_factory.mktemp("workloads"))


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    """Any workload, as far as it may be known."""
    bottleneck = draw(BOTTLENECKS)

    def fact(values: st.SearchStrategy[Any]) -> Fact[Any]:
        return Fact(draw(st.none() | values), "somebody says so", assumed=draw(st.booleans()))

    return {
        "instance_type": draw(st.sampled_from(INSTANCES)),
        "framework": fact(st.sampled_from(["pytorch", "tensorflow", "jax", "xgboost"])),
        "family": fact(st.sampled_from(["transformer", "vision", "diffusion", "custom"])),
        "model": draw(st.sampled_from([None, "bert-base-uncased", "somebody/their-own"])),
        "instances": draw(st.integers(1, 8)),
        "bottleneck": Fact(bottleneck, "somebody says so"),
        "parts": parts_of_step(bottleneck),
        "shapes": fact(st.sampled_from(["static", "few", "varying"])),
        "hours": fact(ranges(st.floats(0.01, 600))),
        "precision": draw(st.sampled_from(["fp32", "fp16", "bf16"])),
        "runs_per_week": fact(st.floats(0.01, 1000)),
        "usd_per_hour": fact(st.floats(0.1, 100)),
        "in_use": frozenset(),
    }


def changed(bert: Facts, change: dict[str, Any]) -> Facts:
    change = dict(change)
    asked = {key: change.pop(key) for key in ("instance_type", "model")}
    settings = dataclasses.replace(bert.settings, **asked)
    return dataclasses.replace(bert, settings=settings, needs=(), **change)


@given(
    told=BOTTLENECKS, attacked=st.sampled_from([("compute",), ("compute", "launches"), ("data",)])
)
def test_the_parts_of_a_step_add_up_to_one(told, attacked: tuple[Part, ...]):
    parts = parts_of_step(told)
    assert set(parts) == set(PARTS)
    assert sum(each.low for each in parts.values()) <= 1 + 1e-9
    assert sum(each.high for each in parts.values()) >= 1 - 1e-9
    rest = tuple(part for part in PARTS if part not in attacked)
    own, others = share_of(parts, attacked), share_of(parts, rest)
    assert (own.low + others.high, own.high + others.low) == pytest.approx((1, 1))


@given(change=changes(), more=st.floats(1, 50), compiling=ranges(st.floats(0, 9000)))
def test_more_runs_never_lower_a_gain_and_longer_runs_repay_compiling_sooner(
    bert, change, more, compiling
):
    facts = changed(bert, change)
    effect = Effect(
        basis=Basis.ASSUMED, sentence="", speedup=Range(1.2, 1.5), compile_seconds=compiling
    )
    asked = {"arms": 1, "engineer_hours": 1.0}
    before = outcome_of(facts, effect, **asked)
    runs, hours = facts.runs_per_week, facts.hours
    if runs.value is not None:
        busier = dataclasses.replace(facts, runs_per_week=Fact(runs.value * more, "more often"))
        after = outcome_of(busier, effect, **asked)
        if before.saved_usd is not None and before.saved_usd.low >= 0:
            assert after.first_year_usd.low >= before.first_year_usd.low - 1e-6
    if hours.value is not None:
        longer = dataclasses.replace(facts, hours=Fact(hours.value.times(more), "longer"))
        assert outcome_of(longer, effect, **asked).saved_share.low >= before.saved_share.low - 1e-9


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_benchmark_counts_every_seed_and_the_candidates_own_compilation(bert, seeds):
    facts = dataclasses.replace(bert, seeds=seeds)
    hour = {"basis": Basis.ASSUMED, "sentence": "", "speedup": Range(1, 1)}
    effect = Effect(compile_seconds=Range(3600, 3600), **hour)
    outcome = outcome_of(facts, effect, arms=2, engineer_hours=0.0)
    jobs = 2 * seeds + seeds - 1  # one job of the baseline would run anyway
    assert outcome.benchmark_jobs == jobs
    assert outcome.benchmark_hours == Range(jobs * 6 + 2 * seeds, jobs * 6 + 2 * seeds)
    assert outcome.saved_hours == Range(-1, -1)


@given(change=changes())
def test_what_is_not_known_makes_no_verdict_confident(bert, change):
    for option in advise(changed(bert, change)).options:
        stances = {each.stance for each in option.considerations}
        if option.verdict is Verdict.ENABLE:
            assert not stances & {Stance.OPEN, Stance.AGAINST, Stance.STOPS}
        if option.verdict is Verdict.OFF:
            stops = [each for each in option.considerations if each.stance is Stance.STOPS]
            assert stops
            assert all(each.known for each in stops)


@given(change=changes())
def test_all_options_stand_on_one_scale_and_can_be_shown(bert, change):
    facts = changed(bert, change)
    advice = advise(facts, [experience()])
    assert {each.name for each in advice.options} == {each.name for each in rules().options}
    for before, after in itertools.pairwise(advice.options):
        assert rank(before) <= rank(after)
    opened = {
        it.of for each in advice.to_do for it in each.considerations if it.stance is Stance.OPEN
    }
    assert opened <= {each.name for each in advice.missing}
    assert list(advice_text(advice, everything=True, forecast=["one"], passing=0.5))
    assert len(list(advice_text(advice))) < 40
    assert list(portfolio_text([advice]))
    assert (in_the_way(advice) or "advice: ").startswith("advice: ")
    json.dumps(advice_document(advice), allow_nan=False)
