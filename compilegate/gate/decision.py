"""What is registered, in one table, and how a new model compares with the registered one. Pure.

| the execution ended with | registered | `Decision.registers` |
|---|---|---|
| a candidate that passed, at most `drop` below the registered model | it | its name |
| no such candidate; a valid baseline, within `drop` | the baseline | its name |
| a winner that is the registered model, and would be registered alike | nothing | `nothing-new` |
| none of these | nothing: the execution fails | `none` |

The registered model is known by the evidence of the job that trained it, which the execution that
registered it has kept. Where the validation rows are the same, both models are compared row by row:
a difference that the choice of rows explains is no drop. Else their recorded values are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from scipy.special import ndtri

from compilegate.gate.evidence import in_the_order_of
from compilegate.gate.findings import Code, Outcome, Reason, failure
from compilegate.gate.metrics import MetricUndefinedError, MetricValues
from compilegate.gate.quality import error_over_rows
from compilegate.gate.records import differing
from compilegate.gate.settings import Experiment, GateSettings
from compilegate.gate.verdict import BaselineVerdict, CandidateVerdict, Decision
from compilegate.job.contract import NO_ARM, NOTHING_NEW
from compilegate.job.evidence import EvidenceError, EvidenceRecord


@dataclass(frozen=True)
class Registered:
    """The model that was registered last."""

    evidence: EvidenceRecord | EvidenceError
    """The evidence of the job that trained it, or the error from reading it."""
    as_now: bool = True
    """Whether it was registered with the same serving settings as this execution's."""


def below_registered(
    settings: GateSettings,
    record: EvidenceRecord,
    registered: Registered | None,
    values: MetricValues,
) -> Iterator[Reason]:
    """Why a model is too far below the registered one, by metric; nothing where no `drop` is
    declared or no model was registered."""
    limits = {name: guard for name, guard in settings.metrics.items() if guard.drop is not None}
    if not limits or registered is None:
        return
    found = registered.evidence
    if isinstance(found, EvidenceError):
        text = (
            f"The registered model's evidence cannot be read, so no drop can be judged: "
            f"{found}. Delete it to start anew."
        )
        yield failure(Code.REGISTERED_UNREADABLE, text)
        return
    same_rows = (
        found.examples is not None
        and record.examples is not None
        and not differing(found.examples, record.examples)
    )
    for metric, guard in limits.items():
        # A finding about the evidence says what a metric lacks; the registered model may lack it.
        with suppress(MetricUndefinedError, KeyError):
            usual, own = (values.of_record(metric, guard, it) for it in (found, record))
            chance = 0.0
            if same_rows and found.examples and record.examples:
                # Rows must meet: the same ones may come in another order.
                before = in_the_order_of(found.examples, record.examples)
                error = error_over_rows(metric, guard, before, record.examples)
                chance = float(ndtri(settings.confidence)) * error
            harm = guard.sign * (usual - own)
            limit = guard.drop or 0.0
            if harm > limit and harm > chance:
                how = "on the same rows" if same_rows else "by recorded values"
                yield failure(
                    Code.REGISTERED_WORSE,
                    f"{metric} is {own:.5g}, of the registered model {usual:.5g} ({how}): worse by "
                    f"{harm:.3g}, drop allows {limit:g}.",
                    metric=metric,
                    value=own,
                    registered_value=usual,
                    drop=limit,
                )


def decide(
    experiment: Experiment,
    baseline: BaselineVerdict,
    candidates: Sequence[CandidateVerdict],
    released: Mapping[str, EvidenceRecord],
    registered: Registered | None,
) -> Decision:
    """The table of this module; `released` has the record of each arm's model to release."""
    seed = experiment.seeds[0]
    arm, sentence = _winner(baseline, candidates, seed)
    if arm in released and _is_registered(released[arm], registered):
        text = f"Nothing is new: the model of {arm}, seed {seed}, is the registered one."
        return Decision(arm, seed, text, registers=NOTHING_NEW)
    return Decision(arm, seed, sentence, registers=arm)


def _is_registered(record: EvidenceRecord, registered: Registered | None) -> bool:
    """Whether the record's model is the registered one: it has the same digest."""
    if registered is None or not registered.as_now:
        return False
    if isinstance(registered.evidence, EvidenceError):
        return False
    own, usual = (it.evidence.digests.get("model") for it in (record, registered.evidence))
    return own is not None and own == usual


def _winner(
    baseline: BaselineVerdict, candidates: Sequence[CandidateVerdict], seed: int
) -> tuple[str, str]:
    """The passing candidate whose speed-up is proven largest; else a baseline that may be
    released; else none. With it, the decision in words."""
    passing = [
        (it.speed.speedup.lower, it.arm)
        for it in candidates
        if it.outcome is Outcome.PASS and it.speed is not None
    ]
    if passing:
        proven, winner = max(passing, key=lambda pair: pair[0])
        return winner, (
            f"Release {winner}, seed {seed}: as good as {baseline.arm} within the margins, and at "
            f"least {proven:.2f} times as fast."
        )
    if not baseline.sound:
        return NO_ARM, "Release nothing: the baseline's evidence is not valid."
    if baseline.reasons:
        return NO_ARM, f"Release nothing: {baseline.arm} may not replace the registered model."
    found = ", ".join(f"{it.arm} {_in_words(it)}" for it in candidates)
    why = f"no candidate passed ({found})" if found else "there is no candidate"
    return baseline.arm, f"Release {baseline.arm}, seed {seed}: {why}."


_IN_WORDS = {
    Outcome.PASS: "passed",
    Outcome.INCONCLUSIVE: "was inconclusive",
    Outcome.FAIL: "failed",
}


def _in_words(candidate: CandidateVerdict) -> str:
    found = {it.code for it in candidate.reasons if it.outcome is not Outcome.PASS}
    busy = candidate.speed is not None and candidate.speed.busy_machine is not None
    if found == {Code.SPEED_UNDECIDED} and busy:
        return "was inconclusive: the machine was too busy to time it"
    return _IN_WORDS[candidate.outcome]
