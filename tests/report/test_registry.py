"""What a model registry shows: metrics as Studio draws them, and a card from the verdict."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from compilegate.gate.observations import Observations, ReplicateObservation
from compilegate.gate.verdict import Decision
from compilegate.job.evidence import Examples
from compilegate.report.registry import MOST_CARD, model_card, model_quality

MULTICLASS, BINARY = "multiclass_classification_metrics", "binary_classification_metrics"


def classified(labels: list[int], predicted: list[int], classes: int) -> Examples:
    ids = np.array([f"example {n}" for n in range(len(labels))])
    return Examples(ids, np.array(labels), np.eye(classes)[predicted], np.zeros(len(labels)))


def quality(*examples: Examples | None, **declared: float):
    """The metrics of an arm whose seeds 1, 2, ... left these examples; seed 1 is released."""
    seeds = dict(enumerate(examples, start=1))
    replicates = tuple(
        ReplicateObservation("fast", seed, metrics={k: v * seed for k, v in declared.items()})
        for seed in seeds
    )
    scored = {("fast", seed): each for seed, each in seeds.items() if each is not None}
    return model_quality(Observations("topics", "eager", (), replicates), scored, ("fast", 1))


def values(metrics) -> dict[str, float]:
    return {name: each["value"] for name, each in metrics.items() if "value" in each}


def test_two_classes_are_measured_as_model_monitor_does() -> None:
    """Its own documentation has this matrix, with these figures."""
    found = quality(classified([0, 0, 0, 1], [0, 1, 1, 1], 2))[BINARY]
    assert found["confusion_matrix"] == {"0": {"0": 1, "1": 2}, "1": {"0": 0, "1": 1}}
    assert found["recall"] == {"value": 1.0, "standard_deviation": "NaN"}
    rates = {"accuracy": 0.5, "f1": 0.5, "precision": 1 / 3, "recall": 1.0}
    assert values(found) == pytest.approx({**rates, "false_positive_rate": 2 / 3})


def test_classes_count_by_how_many_examples_they_have() -> None:
    one = classified([0, 0, 0, 1, 2, 2], [0, 0, 1, 1, 2, 0], 3)
    other = classified([0, 0, 0, 1, 2, 2], [0, 0, 0, 1, 2, 2], 3)
    found = quality(one, other, log_loss=0.25)[MULTICLASS]
    assert found["confusion_matrix"]["0"] == {"0": 2, "1": 1, "2": 0}
    assert found["weighted_recall"]["value"] == found["accuracy"]["value"] == pytest.approx(4 / 6)
    assert found["accuracy"]["standard_deviation"] == pytest.approx(np.std([4 / 6, 1], ddof=1))
    assert found["log_loss"]["value"] == 0.25, "which the workload declares"


def test_numbers_are_measured_by_their_errors() -> None:
    numbers = replace(
        classified([0, 0, 0], [0, 0, 0], 1),
        scores=np.zeros((3, 0)),
        targets=np.array([1.0, 2.0, 3.0]),
        predictions=np.array([1.0, 2.0, 6.0]),
    )
    found = values(quality(numbers)["regression_metrics"])
    expected = {"mae": 1.0, "mse": 3.0, "rmse": 3.0**0.5, "r2": 1 - 3.0 / (2 / 3)}
    assert found == pytest.approx(expected)


def test_reported_metrics_stand_in_a_group_of_their_own() -> None:
    spread = pytest.approx(np.std([20.0, 40.0], ddof=1))
    assert quality(None, None, perplexity=20.0) == {
        "other_metrics": {"perplexity": {"value": 20.0, "standard_deviation": spread}}
    }


def test_a_seed_with_labels_of_no_class_is_left_out_and_many_classes_have_no_matrix() -> None:
    sound = classified([0, 1, 2], [0, 1, 2], 3)
    broken = replace(sound, labels=np.array([0, 1, 9]))
    accuracy = quality(sound, broken)[MULTICLASS]["accuracy"]
    assert accuracy == {"value": 1.0, "standard_deviation": "NaN"}
    assert quality(broken) == {"other_metrics": {}}
    assert "confusion_matrix" not in quality(classified([0, 59], [0, 59], 60))[MULTICLASS]


def test_a_card_has_the_verdicts_numbers_and_does_not_name_its_execution(
    verdict, observations
) -> None:
    """Where nothing has changed, it is the same: no version is registered for a new date."""
    figures = {MULTICLASS: {"accuracy": {"value": 0.947, "standard_deviation": 0.002}}}
    card = model_card(verdict, observations, figures)
    released, compared, _ = card["evaluation_details"]
    assert released["evaluation_observation"] == verdict.decision.sentence
    (accuracy,) = released["metric_groups"][0]["metric_data"]
    assert (accuracy["name"], accuracy["value"]) == ("accuracy", 0.947)
    assert "0.002" in accuracy["notes"]
    quality, speed = compared["metric_groups"]
    assert quality["metric_data"][2]["value"] == -0.0038
    assert "-0.71 to -0.05; margin -1.00" in quality["metric_data"][2]["notes"]
    assert speed["metric_data"][0]["value"] == 1.37
    assert card["additional_information"]["custom_details"]["workload"] == "news-topics"
    assert "s3://" not in json.dumps(card)


@pytest.mark.slow
def test_a_card_is_what_the_schema_of_cards_takes(verdict, observations) -> None:
    """The SDK's shapes have its limits; what they do not know is no part of the schema."""
    from sagemaker.core.shapes import model_card_shapes as shapes  # noqa: PLC0415

    first = verdict.candidates[0]
    wordy = replace(first, metrics=first.metrics * 30)
    decision = Decision("baseline", 1, "Because " * 2_000)
    long = replace(verdict, decision=decision, workload="w" * 300, candidates=(wordy,) * 30)
    card = model_card(long, observations, {})
    assert len(card["evaluation_details"]) > 1
    assert len(json.dumps(card, indent=2)) <= MOST_CARD
    text = json.dumps(card, allow_nan=False)
    read = shapes.ModelCardContent.model_validate_json(text)
    assert json.loads(read.model_dump_json(exclude_unset=True)) == json.loads(text)
