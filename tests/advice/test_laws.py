"""What holds of advice whatever is known: Amdahl, more runs, one scale, no blind confidence."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.advice import Facts, Range, Standing, Verdict, advise
from compilegate.advice.judging import scale
from compilegate.advice.known.facts import Fact, known, unknown
from compilegate.advice.known.gathering import parts_of_step
from compilegate.advice.outcome import Effect, outcome_of, share_of, time_ratio
from compilegate.advice.portfolio import portfolio_of
from compilegate.advice.rules import PARTS, Part, rules
from compilegate.advice.stances import Stance
from compilegate.advice.told.document import advice_document
from compilegate.advice.told.text import advice_text, in_the_way
from compilegate.workload import Advice as Told
from compilegate.workload.file import Bottleneck

pytestmark = pytest.mark.slow

shares = st.floats(0, 1)
positive = st.floats(0.01, 100)


@st.composite
def ranges(draw: st.DrawFn, ends: st.SearchStrategy[float]) -> Range:
    low, high = sorted((draw(ends), draw(ends)))
    return Range(low, high)


@st.composite
def tolds(draw: st.DrawFn) -> Told:
    """Any table [advice], mostly with holes."""
    parts = [draw(st.none() | st.floats(0, 0.33)) for _ in range(3)]
    return Told(
        runs_per_week=draw(st.none() | st.floats(0.01, 1000)),
        hours=draw(st.none() | st.floats(0.01, 600)),
        bottleneck=draw(st.none() | st.sampled_from(get_args(Bottleneck))),
        data_share=parts[0],
        communication_share=parts[1],
        launch_share=parts[2],
    )


@st.composite
def some_facts(draw: st.DrawFn) -> Facts:
    """Any workload, as far as it may be known."""
    told = draw(tolds())
    bottleneck, parts = parts_of_step(told)

    def fact(values: st.SearchStrategy) -> Fact:
        value = draw(st.none() | values)
        return unknown("not known") if value is None else known(value, "known")

    processor, instance_type, accelerator = draw(
        st.sampled_from(
            [
                ("gpu", "ml.g5.48xlarge", "A10G"),
                ("gpu", "ml.p4d.24xlarge", "A100"),
                ("gpu", "ml.g6.xlarge", "L4"),
                ("cpu", "ml.m5.xlarge", None),
            ]
        )
    )
    return Facts(
        workload="any",
        description="Any.",
        framework=fact(st.sampled_from(["pytorch", "tensorflow", "jax", "xgboost"])),
        family=fact(st.sampled_from(["transformer", "vision", "diffusion", "custom"])),
        model=draw(st.sampled_from([None, "bert-base-uncased", "somebody/their-own"])),
        instance_type=instance_type,
        processor=processor,
        accelerator=accelerator,
        accelerators=8,
        instances=draw(st.integers(1, 8)),
        bottleneck=bottleneck,
        parts=parts,
        shapes=fact(st.sampled_from(["static", "few", "varying"])),
        hours=fact(ranges(st.floats(0.01, 600))),
        precision=fact(st.sampled_from(["fp32", "fp16", "bf16"])),
        sequence_length=None,
        batch_size=32,
        runs_per_week=fact(st.floats(0.01, 1000)),
        usd_per_hour=fact(st.floats(0.1, 100)),
        epochs=fact(st.integers(1, 100)),
        resumes=fact(st.booleans()),
        too_large=known(False, "it trains"),
        spot=False,
        tree_method=None,
        engineer_hours=None,
        usd_per_engineer_hour=None,
        compilers=(),
    )


@given(told=tolds())
def test_the_parts_of_a_step_can_add_up_to_one(told):
    _, parts = parts_of_step(told)
    assert set(parts) == set(PARTS)
    assert sum(each.low for each in parts.values()) <= 1 + 1e-9
    assert sum(each.high for each in parts.values()) >= 1 - 1e-9


@given(told=tolds(), attacked=st.sampled_from([("compute",), ("compute", "launches"), ("data",)]))
def test_what_is_attacked_and_what_is_not_add_up_to_one(told, attacked: tuple[Part, ...]):
    _, parts = parts_of_step(told)
    rest = tuple(part for part in PARTS if part not in attacked)
    own, others = share_of(parts, attacked), share_of(parts, rest)
    assert own.low + others.high == pytest.approx(1)
    assert own.high + others.low == pytest.approx(1)


@given(share=ranges(shares), speedup=ranges(positive))
def test_no_speedup_saves_more_than_the_share_it_attacks(share, speedup):
    ratio = time_ratio(Effect(attacked=share, speedup=speedup))
    assert 1 - ratio.low <= share.high + 1e-9
    assert ratio.low <= ratio.high


@given(data=st.floats(0, 1), name=st.sampled_from(["training-compiler", "torch-compile"]))
def test_waiting_for_data_bounds_what_a_compiler_saves(full, data, name):
    facts = full(f"runs_per_week = 3\nhours = 6\ndata_share = {data!r}")
    outcome = advise(facts).option(name).outcome
    assert outcome is not None
    assert outcome.saved_share.high <= 1 - data + 1e-9


@given(facts=some_facts(), more=st.floats(1, 50))
def test_more_runs_never_lower_the_value_of_a_gain(facts, more):
    if facts.runs_per_week.value is None:
        return
    busier = dataclasses.replace(
        facts, runs_per_week=known(facts.runs_per_week.value * more, "more often")
    )
    before = {each.name: each.outcome for each in advise(facts).options}
    after = {each.name: each.outcome for each in advise(busier).options}
    for name, outcome in before.items():
        then = after[name]
        if outcome is None or then is None or outcome.first_year_usd is None:
            continue
        assert outcome.saved_usd is not None
        assert then.first_year_usd is not None
        if outcome.saved_usd.low >= 0:
            assert then.first_year_usd.low >= outcome.first_year_usd.low - 1e-6
        if outcome.saved_usd.high >= 0:
            assert then.first_year_usd.high >= outcome.first_year_usd.high - 1e-6


@given(facts=some_facts())
def test_what_is_not_known_makes_no_verdict_confident(facts):
    for option in advise(facts).options:
        if option.name == "status-quo" or option.in_use:
            continue
        if option.verdict is Verdict.ENABLE:
            stances = {each.stance for each in option.considerations}
            assert not stances & {Stance.OPEN, Stance.AGAINST, Stance.STOPS}
        if option.verdict is Verdict.OFF:
            stops = [each for each in option.considerations if each.stance is Stance.STOPS]
            assert stops
            assert {each.standing for each in stops} == {Standing.KNOWN}


@given(facts=some_facts())
def test_all_options_stand_on_one_scale(facts):
    options = advise(facts).options
    assert {each.name for each in options} == {each.name for each in rules().options}
    for before, after in itertools.pairwise(options):
        assert scale(before) <= scale(after)
    quo = next(each for each in options if each.name == "status-quo")
    assert quo.outcome is not None
    assert quo.outcome.saved_share == Range(0, 0)


@given(facts=some_facts())
def test_every_question_that_is_open_is_named_with_what_it_settles(facts):
    advice = advise(facts)
    named = {each.name for each in advice.missing}
    for option in advice.options:
        if option.verdict is not Verdict.OFF:
            assert {each.name for each in option.missing} <= named
    assert all(each.question and each.settles and each.find_out for each in advice.missing)
    assert [each.rank for each in advice.missing] == sorted(each.rank for each in advice.missing)


@given(facts=some_facts(), extra=st.floats(0.5, 2))
def test_a_longer_run_repays_compiling_no_later(facts, extra):
    effect = Effect(attacked=Range(1, 1), speedup=Range(1.2, 1.5), compile_seconds=Range(60, 300))
    if facts.hours.value is None:
        return
    longer = dataclasses.replace(facts, hours=known(facts.hours.value.times(1 + extra), "longer"))
    asked = {"trainings": 3, "engineer_hours": Range(1, 2)}
    short, long = outcome_of(facts, effect, **asked), outcome_of(longer, effect, **asked)
    assert long.saved_share.low >= short.saved_share.low - 1e-9


@given(facts=some_facts())
def test_advice_can_be_told_whatever_is_known(facts):
    advice = advise(facts)
    assert list(advice_text(advice))
    assert (in_the_way(advice) or "advice: ").startswith("advice: ")
    json.dumps(advice_document(advice), allow_nan=False)
    assert portfolio_of([advice]).entries[0].name == "any"
