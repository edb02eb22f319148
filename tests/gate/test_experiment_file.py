"""The experiment's file: what is wrong with it is said in sentences, each with its key."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from compilegate.gate.settings import Experiment, ExperimentError, read_experiment

ARM = {"compiler": "eager", "batch_size": 8, "learning_rate": 0.01, "precision": "fp32"}
ACCURACY = {"direction": "higher", "margin": 0.05}
EXPERIMENT = {
    "workload": "prices",
    "baseline": "eager",
    "seeds": [1, 2],
    "arms": {"eager": ARM, "compiled": {**ARM, "compiler": "own"}},
    "settings": {"metrics": {"accuracy": ACCURACY}},
}
PART = {"column": "language", "metric": "accuracy", "margin": 0.03}
METRIC, OTHER = "settings.metrics.accuracy", "settings.metrics.mse"
POINTS = {"direction": "lower", "margin": 5.0, "relative": True}


def wrong_with(folder, document) -> list[str]:
    path = folder / "gate.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ExperimentError) as refused:
        read_experiment(path)
    return [problem.removeprefix(f"{path}: ") for problem in refused.value.problems]


def with_values(values: dict[str, Any]) -> dict[str, Any]:
    """The experiment with other values, by their paths."""
    document = copy.deepcopy(EXPERIMENT)
    for path, value in values.items():
        *above, key = path.split(".")
        place = document
        for each in above:
            place = place[each]
        place[key] = value
    return document


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"baseline": "eagr"}, "baseline is 'eagr', allowed: one of the arms eager, compiled"),
        ({"seeds": []}, "seeds is [], expected 1 or more entries"),
        ({"seeds": [1, 1]}, "seeds is [1, 1], allowed: distinct seeds"),
        ({"seeds": [1], "evidence": "printed"}, "seeds is [1] and evidence is 'printed', allowed"),
        ({"arms.none": ARM}, "arms holds 'none', which is how a decision names no arm"),
        ({"arms.eager.usd_per_hour": 2.0}, "arms.eager: usd_per_hour is 2 without instance_type"),
        ({"arms.eager.usd_per_hour": 0}, "arms.eager.usd_per_hour is 0"),
        ({f"{METRIC}.margn": 1}, f"{METRIC}.margn is not a known key (did you mean 'margin'?)"),
        ({"settings.metrics.acuracy": ACCURACY}, "settings: metrics.acuracy is not a metric of"),
        ({f"{METRIC}.margin": None}, f"{METRIC}: margin is missing"),
        ({METRIC: {**ACCURACY, "margin": None, "floor": 0.9}}, "settings.metrics have no margin"),
        ({METRIC: {**ACCURACY, "margin": None, "watched": True}}, "settings: metrics are all wa"),
        ({f"{METRIC}.margin": 1.0}, "settings: metrics.accuracy.margin is 1, allowed: less than"),
        ({f"{METRIC}.direction": "lower"}, "settings: metrics.accuracy.direction is 'lower'"),
        ({OTHER: POINTS}, "settings: metrics.mse.margin is 5 of the baseline's value"),
        ({f"{METRIC}.drop": -0.1}, f"{METRIC}.drop is -0.1, expected a number of 0.0 or more"),
        ({OTHER: {"direction": "lower", "drop": 1, "watched": True}}, f"{OTHER}: watched is true"),
        ({"settings.slices": [{**PART, "metric": "auroc"}]}, "settings: slices[0].metric is"),
        ({"settings.slices": [{**PART, "margin": None}]}, "settings.slices[0]: margin is missing"),
        ({"settings.slices": [{**PART, "watched": True}]}, "settings.slices[0]: watched is true"),
        ({"settings.confidence": 0.51}, "settings.confidence is 0.51"),
        ({"settings.parity": {"required": True, "steps": 0}}, "settings.parity: steps is 0 but"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(tmp_path, values, expected) -> None:
    (sentence,) = wrong_with(tmp_path, with_values(values))
    assert sentence.startswith(expected)


def test_all_that_is_wrong_is_named_at_once(tmp_path) -> None:
    sizes = {f"arms.{arm}.batch_size": "8" for arm in EXPERIMENT["arms"]}
    found = wrong_with(tmp_path, with_values(sizes))
    assert [it.partition(" ")[0] for it in found] == list(sizes)
    assert wrong_with(tmp_path, [1, 2]) == ["the document is [1, 2], expected a table"]


def test_a_baseline_alone_needs_no_margin() -> None:
    document = with_values({METRIC: {"direction": "higher", "floor": 0.9}})
    del document["arms"]["compiled"]
    assert Experiment.model_validate(document).candidates == ()
