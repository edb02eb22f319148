"""`model_card.json`: how a model came to be, as SageMaker's model cards have it. Pure.

Only what the verdict and its evidence know: what a model is for, and whom it may harm, is for
people to add. A card of a model package has the schema of a model card without
`model_package_details`, and its texts and names are cut to what that schema takes.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-registry-details.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compilegate.gate.findings import Outcome, clipped
from compilegate.gate.observations import ArmObservation, Observations, ReplicateObservation
from compilegate.gate.verdict import CandidateVerdict, MetricJudgement, SpeedJudgement, Verdict

LONGEST_NAME = 63
"""The name of an evaluation, or of a group of metrics."""
LONGEST_METRIC = 255
LONGEST_NOTE = 1024
LONGEST_OBSERVATION = 2096
LONGEST_CAVEAT = 2048
LONGEST_DETAIL = 255
MOST_FIGURES = 60
"""The most in one group: a verdict with many slices has more."""
MOST_EVALUATIONS = 20
MOST_CARD = 100_000
"""Characters that a package's card may have."""

_IN_WORDS = {
    Outcome.PASS: "passed",
    Outcome.INCONCLUSIVE: "was inconclusive",
    Outcome.FAIL: "failed",
}
Card = dict[str, Any]


def model_card(verdict: Verdict, observations: Observations, quality: Mapping[str, Any]) -> Card:
    """The card of the model that the verdict releases; `quality` is what `model_quality` told.

    Nothing in it names the execution: where nothing has changed, the card is the same.
    """
    released = verdict.decision
    arm = next((each for each in observations.arms if each.arm == released.arm), None)
    replicate = next(
        (
            each
            for each in observations.replicates
            if (each.arm, each.seed) == (released.arm, released.seed)
        ),
        None,
    )
    card: Card = {
        "model_overview": {"model_creator": clipped(f"Workload {verdict.workload}", LONGEST_NOTE)},
        "training_details": _training(arm, replicate, released.seed),
        "evaluation_details": [
            _released(verdict, quality),
            *(_compared(verdict, each) for each in verdict.candidates[:MOST_EVALUATIONS]),
        ],
        "additional_information": {
            "caveats_and_recommendations": clipped(_caveats(verdict), LONGEST_CAVEAT),
            "custom_details": _details(verdict, observations, arm),
        },
    }
    evaluations = card["evaluation_details"]
    while len(evaluations) > 1 and len(json.dumps(card, indent=2)) > MOST_CARD:
        evaluations.pop()
    return card


def _training(
    arm: ArmObservation | None, replicate: ReplicateObservation | None, seed: int
) -> Card:
    declared = {
        "compiler": None if arm is None else arm.compiler,
        "batch_size": None if arm is None else arm.batch_size,
        "learning_rate": None if arm is None else arm.learning_rate,
        "precision": None if arm is None else arm.precision,
        "seed": seed,
    }
    measured = {} if replicate is None else _measured(replicate)
    notes = "" if replicate is None else " ".join(replicate.notes)
    return {
        **({"training_observations": clipped(notes, LONGEST_NOTE)} if notes else {}),
        "training_job_details": {
            "user_provided_hyper_parameters": [
                {"name": name, "value": clipped(str(value), LONGEST_DETAIL)}
                for name, value in declared.items()
                if value is not None
            ],
            "user_provided_training_metrics": [
                {"name": name, "value": float(value)} for name, value in measured.items()
            ],
        },
    }


def _measured(replicate: ReplicateObservation) -> dict[str, float]:
    known = {
        "steps": replicate.steps,
        "samples_per_second": replicate.samples_per_second,
        "compile_seconds": replicate.compile_seconds,
        "train_seconds": replicate.train_seconds,
        "peak_memory_bytes": replicate.peak_memory_bytes,
        "last_training_loss": replicate.loss.losses[-1]
        if replicate.loss is not None and replicate.loss.losses
        else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _released(verdict: Verdict, quality: Mapping[str, Any]) -> Card:
    """The metrics of the model itself, on the validation data."""
    figures = [
        _number(name, each["value"], _spread_in_words(each["standard_deviation"]))
        for group in quality.values()
        for name, each in group.items()
        if isinstance(each, Mapping) and "standard_deviation" in each
    ]
    return {
        "name": clipped(f"Released: {verdict.decision.arm}", LONGEST_NAME),
        "evaluation_observation": clipped(verdict.decision.sentence, LONGEST_OBSERVATION),
        "metric_groups": _groups(quality=figures),
    }


def _spread_in_words(spread: object) -> str:
    if not isinstance(spread, float):
        return "of one seed, so that its spread is not known"
    return f"standard deviation over the seeds of the arm: {spread:.4g}"


def _compared(verdict: Verdict, candidate: CandidateVerdict) -> Card:
    """A candidate against the baseline, whichever of them was released."""
    reasons = " ".join(
        reason.sentence for reason in candidate.reasons if reason.outcome is candidate.outcome
    )
    said = f"The candidate {_IN_WORDS[candidate.outcome]}. {reasons}".rstrip()
    return {
        "name": clipped(f"{candidate.arm} against {verdict.baseline.arm}", LONGEST_NAME),
        "evaluation_observation": clipped(said, LONGEST_OBSERVATION),
        "metric_groups": _groups(
            quality=[item for each in candidate.metrics for item in _difference(each)],
            speed=[] if candidate.speed is None else _speed(candidate.speed),
        ),
    }


def _difference(judged: MetricJudgement) -> list[Card]:
    name = judged.metric if judged.part is None else f"{judged.metric} of {judged.part}"
    margin = "only watched" if judged.margin is None else f"margin {judged.margin:.4g}"
    bounds = (
        f"between {judged.delta.lower:.4g} and {judged.delta.upper:.4g}; {judged.direction} is "
        f"better, {margin}; {judged.seeds} seeds, {judged.examples:,} examples"
    )
    return [
        _number(f"{name}, baseline", judged.baseline),
        _number(f"{name}, candidate", judged.candidate),
        _number(f"{name}, difference", judged.delta.estimate, bounds),
    ]


def _speed(judged: SpeedJudgement) -> list[Card]:
    bounds = (
        f"between {judged.speedup.lower:.4g} and {judged.speedup.upper:.4g}, over {judged.seeds} "
        "jobs of each arm"
    )
    return [
        _number("speed-up", judged.speedup.estimate, bounds),
        _number("samples per second, baseline", judged.baseline_samples_per_second),
        _number("samples per second, candidate", judged.candidate_samples_per_second),
    ]


def _number(name: str, value: float, notes: str = "") -> Card:
    told = {"notes": clipped(notes, LONGEST_NOTE)} if notes else {}
    return {
        "name": clipped(name, LONGEST_METRIC),
        "type": "number",
        "value": float(value),
        **told,
    }


def _groups(**figures: list[Card]) -> list[Card]:
    return [
        {"name": name, "metric_data": data[:MOST_FIGURES]} for name, data in figures.items() if data
    ]


def _caveats(verdict: Verdict) -> str:
    notes = [note.sentence for each in verdict.candidates for note in each.notes]
    bounds = (
        f"Bounds hold with a confidence of {verdict.confidence:g}, on the validation data of this "
        "execution and no other."
    )
    return " ".join([bounds, *dict.fromkeys(notes)])


def _details(
    verdict: Verdict, observations: Observations, arm: ArmObservation | None
) -> dict[str, str]:
    known = {
        "workload": verdict.workload,
        "arm": verdict.decision.arm,
        "seeds": ", ".join(map(str, verdict.seeds)),
        "data": observations.data,
        **({} if arm is None else {f"environment: {k}": v for k, v in arm.environment.items()}),
    }
    return {
        clipped(name, LONGEST_DETAIL): clipped(value, LONGEST_DETAIL)
        for name, value in known.items()
        if value
    }
