"""Laws: what holds whatever the evidence is. No record crashes the gate, and no candidate's record
changes whether the baseline is valid."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from compilegate.gate.evidence import MissingEvidenceError, UndeclaredEvidenceError, take_rows
from compilegate.gate.findings import Code, Outcome
from compilegate.gate.judge import judge
from compilegate.gate.observations import Observations, observe
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import (
    CheckpointRecord,
    EvidenceError,
    EvidenceRecord,
    Resumption,
    Steps,
)
from tests.gate.conftest import SyntheticExecution, as_read, build_execution, with_digests

often = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
seldom = settings(max_examples=25, deadline=None)


def small(**changes: Any) -> SyntheticExecution:
    """Few rows, every part that a record may have, and two candidates."""
    execution = build_execution(
        seeds=(1, 2), examples=60, candidates=("fast", "other"), accuracy=0.8, **changes
    )
    for arm, seed in list(execution.records):
        scores = execution.examples(arm, seed).scores
        scores = scores * np.random.default_rng([seed, len(arm)]).lognormal(0.0, 0.3, (60, 4))
        execution.put_scores(arm, seed, scores / scores.sum(axis=1, keepdims=True))
        slices = {"language": np.array(["de", "en"] * 30)}
        execution.put(arm, seed, examples={"slices": slices, "inputs": np.arange(60)})
        execution.train_on(arm, seed, [f"train-{number}" for number in range(9)], ["a", "b"])
        if arm != "baseline":
            execution.pair(arm, seed, 1.5)
    return execution


SMALL = small(slices=[{"column": "language", "metric": "accuracy", "margin": 0.2}])
PLACES = list(SMALL.records)
ODD_COLUMNS = {
    "empty": lambda it: it[:0],
    "one": lambda it: it[:1],
    "shorter": lambda it: it[:-1],
    "not numbers": lambda it: np.full(it.shape, np.nan),
    "infinite": lambda it: np.full(it.shape, -np.inf),
    "huge": lambda it: np.full(it.shape, 1e300),
    "tiny": lambda it: np.full(it.shape, 1e-320),
    "zeros": lambda it: np.zeros(it.shape, dtype=it.dtype if it.dtype.kind != "U" else float),
    "constant": lambda it: np.full(it.shape, it.ravel()[0] if it.size else 0),
    "negative": lambda it: -1 - it if it.dtype.kind in "fi" else it,
    "texts": lambda it: np.array(["x"] * len(it)),
    "objects": lambda it: np.array([object()] * len(it), dtype=object),
    "flat": lambda it: it.reshape(-1)[:, None, None],
    "scalar": lambda it: np.array(1.0),
    "single precision": lambda it: it.astype(np.float32) if it.dtype.kind == "f" else it,
    "reversed": lambda it: it[::-1],
    "none": lambda _: None,
}
PARTS = ("steps", "examples", "parity", "paired", "trained_on")
odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 60, 10**30]),
    st.floats(),
    st.text(max_size=8),
)
odd_seconds, odd_numbers = (
    st.floats(0.0, 1e300),
    st.floats() | st.sampled_from([0.0, 1e-320, 1e300]),
)
keys = st.sampled_from(["batch_size", "steps", "load", "processors", "torch", "x"])
times = st.sampled_from(["train_seconds", "total_seconds", "samples_per_second"])
ODD_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **{part: st.dictionaries(keys, odd_values, max_size=1) for part in ("recipe", "checkup")},
    "environment": st.dictionaries(keys, odd_values, max_size=1),
    "metrics": st.dictionaries(st.sampled_from(["accuracy", "x"]), odd_numbers, max_size=1),
    "digests": st.just({}),
    "speed": st.dictionaries(times, odd_seconds, min_size=1)
    | st.fixed_dictionaries({"steady_from": st.integers(-3, 100)}),
    "compiler": st.fixed_dictionaries({"compile_seconds": odd_seconds}),
    "parity": st.none(),
    "paired_speed": st.none(),
    "failure": st.just("it failed"),
    "origin": st.sampled_from(["measured", "printed", "scored", "absent", "x"]),
    "peak_memory_bytes": st.sampled_from([None, 0, -1, 10**30]),
    "memory_of": st.sampled_from([None, "device", "process", "x"]),
    "checkpoints": st.integers(-1, 70).map(
        lambda step: CheckpointRecord(1, 1.0, None, (Resumption(step, 66, 1.0),))
    ),
}
"""By field of the evidence, what may stand there: of fields with keys, other values of some, or
none at all."""


@st.composite
def changed(draw: st.DrawFn, key: tuple[str, int]) -> EvidenceRecord | EvidenceError | None:
    """Anything that may lie where this record should: None is nothing."""
    kind = draw(st.sampled_from(["nothing", "error", "another", *["damaged"] * 6]))
    if kind == "nothing":
        return None
    if kind == "error":
        errors = [EvidenceError, MissingEvidenceError]
        return draw(st.sampled_from(errors))(draw(st.text(max_size=20)))
    record = SMALL.record(*(draw(st.sampled_from(PLACES)) if kind == "another" else key))
    if draw(st.booleans()):  # under its own name
        own = SMALL.record(*key).evidence
        named = {"arm": own.arm, "seed": own.seed, "job": own.job}
        record = dataclasses.replace(record, evidence=dataclasses.replace(record.evidence, **named))
    with suppress(AttributeError, IndexError, LookupError, TypeError, ValueError):
        for _ in range(draw(st.integers(1, 3))):
            record = _damaged(draw, record)
        if draw(st.booleans()):  # as if the job had written it so
            record = with_digests(record)
        return as_read(record)
    return EvidenceError("no job can have written this")


def _damaged(draw: st.DrawFn, record: EvidenceRecord) -> EvidenceRecord:
    what = draw(st.sampled_from(["column", "column", "part", "rows", "field", "field", "field"]))
    if what == "column":
        name, odd = draw(st.sampled_from(PARTS)), draw(st.sampled_from(list(ODD_COLUMNS)))
        return with_odd_column(record, name, odd, draw(st.integers(0, 9)))
    if what == "part":
        return dataclasses.replace(record, **{draw(st.sampled_from(PARTS)): None})
    evidence = record.evidence
    if what == "rows":  # hardly any, as the recipe says
        count = draw(st.integers(0, 3))
        steps = Steps(**{key: it[:count] for key, it in vars(record.steps).items()})
        rows = take_rows(record.examples, slice(count))
        evidence = dataclasses.replace(evidence, recipe={**evidence.recipe, "steps": count})
        return dataclasses.replace(record, steps=steps, examples=rows, evidence=evidence)
    name = draw(st.sampled_from(list(ODD_FIELDS)))
    value, known = draw(ODD_FIELDS[name]), getattr(evidence, name)
    if isinstance(value, dict) and value:
        of_keys = isinstance(known, dict)
        value = {**known, **value} if of_keys else dataclasses.replace(known, **value)
    return dataclasses.replace(record, evidence=dataclasses.replace(evidence, **{name: value}))


def with_odd_column(record: EvidenceRecord, part: str, odd: str, number: int) -> EvidenceRecord:
    found = getattr(record, part)
    names = [name for name, it in vars(found).items() if isinstance(it, np.ndarray)]
    name = names[number % len(names)]
    column = ODD_COLUMNS[odd](getattr(found, name))
    if column is None and part == "trained_on":  # which no file can hold
        return record
    return dataclasses.replace(record, **{part: dataclasses.replace(found, **{name: column})})


class Records(dict[Any, Any]):
    """Records that hypothesis shows by what is in their place alone."""

    def __repr__(self) -> str:
        whole = [key for key, it in self.items() if it is SMALL.records.get(key)]
        return f"Records, of which {whole} are as they were"


@st.composite
def executions(draw: st.DrawFn, arms: tuple[str, ...]) -> Records:
    """The small execution's records, of which some of these arms are replaced by anything."""
    records = Records(SMALL.records)
    for key in draw(st.lists(st.sampled_from([it for it in PLACES if it[0] in arms]), min_size=1)):
        found = draw(changed(key))
        if found is None:
            records.pop(key, None)
        else:
            records[key] = found
    if draw(st.booleans()):
        records[arms[-1], 99] = UndeclaredEvidenceError("seed 99 was trained")
    return records


BASELINE = SMALL.judge().baseline


@pytest.mark.slow
@often
@given(records=executions(("fast", "other")))
def test_no_candidate_s_evidence_changes_whether_the_baseline_is_valid(records) -> None:
    assert BASELINE.sound
    assert judge(SMALL.experiment, records).baseline == BASELINE


@pytest.mark.slow
@often
@given(records=executions(("baseline", "fast", "other")))
@example(records={})
def test_every_record_of_any_shape_gets_a_verdict_that_is_read_back(records) -> None:
    verdict = judge(SMALL.experiment, records)
    assert Verdict.from_json(verdict.to_json()) == verdict
    observed = observe(SMALL.experiment, records)
    assert Observations.from_json(observed.to_json()) == observed
    for each in verdict.candidates:
        assert all(reason.sentence.isprintable() for reason in each.reasons)
    passed = [each.arm for each in verdict.candidates if each.outcome is Outcome.PASS]
    assert verdict.decision.arm in {"none", "baseline", *passed}
    assert (verdict.decision.arm == "none") is not verdict.baseline.sound


@pytest.mark.slow
@seldom
@given(order=st.permutations(PLACES), arms=st.permutations(["baseline", "fast", "other"]))
def test_the_order_of_records_and_arms_does_not_matter(order, arms) -> None:
    expected = SMALL.judge()
    declared = {arm: SMALL.experiment.arms[arm] for arm in arms}
    experiment = SMALL.experiment.model_copy(update={"arms": declared})
    verdict = judge(experiment, {key: SMALL.records[key] for key in order})
    assert verdict.decision.arm == expected.decision.arm
    assert verdict.baseline == expected.baseline
    found, usual = (
        {it.arm: (it.outcome, it.metrics, it.speed) for it in each.candidates}
        for each in (verdict, expected)
    )
    assert found == usual


@seldom
@given(order=st.permutations(range(60)))
def test_the_order_of_rows_does_not_matter(order) -> None:
    execution = SyntheticExecution(SMALL.experiment, dict(SMALL.records))
    examples = take_rows(SMALL.examples("fast", 2), np.array(order))
    execution.put("fast", 2, examples=examples)
    assert execution.judge().candidates == SMALL.judge().candidates


def test_the_order_of_seeds_after_the_released_one_does_not_matter() -> None:
    execution = build_execution(examples=300)
    expected = execution.judge().candidates[0]
    execution.experiment = execution.experiment.model_copy(update={"seeds": [1, 3, 2]})
    found = execution.judge().candidates[0]
    assert found.outcome is expected.outcome
    for one, other in zip(found.metrics, expected.metrics, strict=True):
        assert one.delta.lower == pytest.approx(other.delta.lower)


@pytest.mark.slow
@seldom
@given(worse_by=st.floats(0.0, 0.06), metric=st.sampled_from(["accuracy", "macro_f1", "auroc"]))
def test_swapping_the_arms_mirrors_the_interval(worse_by, metric) -> None:
    guard = {"direction": "higher", "margin": 0.02}
    execution = build_execution(examples=300, worse_by=worse_by, metrics={metric: guard})
    (forth,) = execution.judge().candidates[0].metrics
    for seed in (1, 2, 3):
        one, other = (execution.examples(arm, seed) for arm in ("baseline", "fast"))
        execution.put("baseline", seed, examples=other)
        execution.put("fast", seed, examples=one)
    (back,) = execution.judge().candidates[0].metrics
    mirrored = (-back.delta.estimate, -back.delta.upper, -back.delta.lower)
    assert dataclasses.astuple(forth.delta) == pytest.approx(mirrored, abs=1e-12)


@seldom
@given(scale=st.sampled_from([2.0**-20, 0.25, 8.0, 2.0**20]), margin=st.floats(0.05, 1.0))
def test_the_unit_of_a_metric_does_not_matter(scale, margin) -> None:
    outcomes = []
    for unit in (1.0, scale):
        guard = {"direction": "higher", "margin": margin * unit, "reported": True}
        execution = build_execution(examples=100, metrics={"bleu": guard})
        for arm, values in (("baseline", (27.1, 27.4, 26.9)), ("fast", (26.8, 27.5, 26.7))):
            for seed, value in enumerate(values, 1):
                execution.alter(arm, seed, metrics__bleu=value * unit)
        (metric,) = execution.judge().candidates[0].metrics
        outcomes.append((metric.outcome, round(metric.delta.lower / unit, 9)))
    assert outcomes[0] == outcomes[1]


def test_a_verdict_with_codes_of_earlier_editions_can_still_be_read() -> None:
    document = json.loads(SMALL.judge().to_json())
    reason = document["candidates"][0]["reasons"][0]
    reason["code"] = "evidence.truncated"
    for key in ("rest_standard_error", "skewness"):  # keys that were not there
        for metric in document["candidates"][0]["metrics"]:
            del metric[key]
    del document["candidates"][0]["speed"]["binding"]
    verdict = Verdict.from_json(json.dumps(document))
    code = verdict.candidates[0].reasons[0].code
    assert (code, code.subject, code in set(Code)) == ("evidence.truncated", "evidence", False)
    with pytest.raises(ValueError, match="is not a valid Code"):
        Code("a b.c")
    assert Verdict.from_json(verdict.to_json()) == verdict
