"""What a model registry shows: metrics as Studio draws them, and a card from the verdict."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.gate.observations import Observations, ReplicateObservation
from compilegate.gate.verdict import Decision
from compilegate.job.evidence import Examples
from compilegate.report.registry import MOST_CARD, model_card, model_quality

MULTICLASS, BINARY = "multiclass_classification_metrics", "binary_classification_metrics"


def sorted_examples(labels: list[int], predicted: list[int], classes: int) -> Examples:
    return Examples(
        ids=np.array([f"example {n}" for n in range(len(labels))]),
        labels=np.array(labels),
        scores=np.eye(classes)[predicted],
        losses=np.zeros(len(labels)),
    )


def numbers(targets: list[float], predictions: list[float]) -> Examples:
    return Examples(
        ids=np.array([f"example {n}" for n in range(len(targets))]),
        labels=np.zeros(len(targets), dtype=int),
        scores=np.zeros((len(targets), 0)),
        losses=np.zeros(len(targets)),
        targets=np.array(targets),
        predictions=np.array(predictions),
    )


def quality(*examples: Examples | None, **declared: float):
    """Of an arm whose seeds 1, 2, ... left these examples; seed 1 is released."""
    seeds = dict(enumerate(examples, start=1))
    observations = Observations(
        workload="topics",
        baseline="baseline",
        arms=(),
        replicates=tuple(
            ReplicateObservation("fast", seed, metrics={k: v * seed for k, v in declared.items()})
            for seed in seeds
        ),
    )
    scored = {("fast", seed): each for seed, each in seeds.items() if each is not None}
    return model_quality(observations, scored, ("fast", 1))


def test_two_classes_are_told_as_model_monitor_does() -> None:
    """Its own documentation has this matrix, with these figures."""
    told = quality(sorted_examples([0, 0, 0, 1], [0, 1, 1, 1], 2))[BINARY]
    assert told["confusion_matrix"] == {"0": {"0": 1, "1": 2}, "1": {"0": 0, "1": 1}}
    assert told["recall"] == {"value": 1.0, "standard_deviation": "NaN"}
    assert told["precision"]["value"] == pytest.approx(1 / 3)
    assert told["accuracy"]["value"] == 0.5
    assert told["true_negative_rate"]["value"] == pytest.approx(1 / 3)
    assert told["false_positive_rate"]["value"] == pytest.approx(2 / 3)
    assert told["f1"]["value"] == pytest.approx(0.5)


def test_classes_count_by_how_many_examples_they_have() -> None:
    one = sorted_examples([0, 0, 0, 1, 2, 2], [0, 0, 1, 1, 2, 0], 3)
    other = sorted_examples([0, 0, 0, 1, 2, 2], [0, 0, 0, 1, 2, 2], 3)
    told = quality(one, other, log_loss=0.25)[MULTICLASS]
    assert told["confusion_matrix"]["0"] == {"0": 2, "1": 1, "2": 0}
    assert told["weighted_recall"]["value"] == told["accuracy"]["value"] == pytest.approx(4 / 6)
    assert told["accuracy"]["standard_deviation"] == pytest.approx(np.std([4 / 6, 1], ddof=1))
    assert told["accuracy_best_constant_classifier"]["value"] == 0.5
    assert told["log_loss"]["value"] == 0.25, "which the workload declares"


def test_numbers_are_told_by_their_errors() -> None:
    told = quality(numbers([1.0, 2.0, 3.0], [1.0, 2.0, 6.0]))["regression_metrics"]
    assert told["mae"]["value"] == pytest.approx(1.0)
    assert told["mse"]["value"] == pytest.approx(3.0)
    assert told["rmse"]["value"] == pytest.approx(3.0**0.5)
    assert told["r2"]["value"] == pytest.approx(1 - 3.0 / (2 / 3))


def test_what_only_reported_its_metrics_is_drawn_by_nothing_and_told() -> None:
    assert quality(None, None, perplexity=20.0) == {
        "other_metrics": {
            "perplexity": {
                "value": 20.0,
                "standard_deviation": pytest.approx(np.std([20.0, 40.0], ddof=1)),
            }
        }
    }


def test_a_seed_with_labels_of_no_class_is_left_out() -> None:
    sound = sorted_examples([0, 1, 2], [0, 1, 2], 3)
    broken = replace(sound, labels=np.array([0, 1, 9]))
    told = quality(sound, broken)[MULTICLASS]
    assert told["accuracy"] == {"value": 1.0, "standard_deviation": "NaN"}
    assert quality(broken) == {"other_metrics": {}}


def test_many_classes_have_no_matrix() -> None:
    told = quality(sorted_examples([0, 59], [0, 59], 60))[MULTICLASS]
    assert "confusion_matrix" not in told
    assert told["accuracy"]["value"] == 1.0


@pytest.mark.slow
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
)
def test_every_figure_of_classes_lies_between_nothing_and_all(rows) -> None:
    labels, predicted = zip(*rows, strict=True)
    told = quality(sorted_examples(list(labels), list(predicted), 4))[MULTICLASS]
    matrix = told.pop("confusion_matrix")
    assert sum(sum(row.values()) for row in matrix.values()) == len(rows)
    assert all(0.0 <= each["value"] <= 1.0 + 1e-12 for each in told.values())
    assert told["weighted_recall"]["value"] == pytest.approx(told["accuracy"]["value"])


def test_a_card_tells_what_the_verdict_tells(verdict, observations) -> None:
    figures = {MULTICLASS: {"accuracy": {"value": 0.947, "standard_deviation": 0.002}}}
    card = model_card(verdict, observations, figures)
    released, *compared = card["evaluation_details"]
    assert released["name"] == "Released: baseline"
    assert released["evaluation_observation"] == verdict.decision.sentence
    assert released["metric_groups"] == [
        {
            "name": "quality",
            "metric_data": [
                {
                    "name": "accuracy",
                    "type": "number",
                    "value": 0.947,
                    "notes": "standard deviation over the seeds of the arm: 0.002",
                }
            ],
        }
    ]
    assert [each["name"] for each in compared] == [
        f"{candidate.arm} against baseline" for candidate in verdict.candidates
    ]
    differences = compared[0]["metric_groups"][0]["metric_data"]
    assert differences[2]["name"] == "accuracy, difference"
    assert differences[2]["notes"].startswith("between -0.0071 and -0.0005; higher is better")
    assert compared[0]["metric_groups"][1]["metric_data"][0]["name"] == "speed-up"
    assert card["additional_information"]["custom_details"]["workload"] == "news-topics"


@pytest.mark.slow
def test_a_card_is_what_the_schema_of_cards_takes(verdict, observations) -> None:
    """The SDK's shapes have its limits; what they do not know is no part of the schema."""
    from sagemaker.core.shapes import model_card_shapes as shapes  # noqa: PLC0415

    long = replace(
        verdict, decision=Decision("baseline", 1, "Because " * 2_000), workload="w" * 300
    )
    text = json.dumps(model_card(long, observations, {}), allow_nan=False)
    assert len(text) <= MOST_CARD
    read = shapes.ModelCardContent.model_validate_json(text)
    kept = json.loads(read.model_dump_json(exclude_unset=True))
    assert kept == json.loads(text)


@pytest.mark.slow
def test_a_card_of_many_candidates_is_cut_to_what_a_package_takes(verdict, observations) -> None:
    (first, *_) = verdict.candidates
    wordy = replace(first, metrics=first.metrics * 30)
    many = replace(verdict, candidates=(wordy,) * 30)
    card = model_card(many, observations, {})
    assert len(json.dumps(card, indent=2)) <= MOST_CARD
    assert len(card["evaluation_details"]) > 1


def test_a_card_does_not_name_its_execution(verdict, observations) -> None:
    """Where nothing has changed, it is the same: no version is registered for a new date."""
    assert model_card(verdict, observations, {}) == model_card(verdict, observations, {})
    assert "s3://" not in json.dumps(model_card(verdict, observations, {}))
