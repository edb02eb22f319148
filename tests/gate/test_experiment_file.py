"""The experiment's file: what is wrong with it is said in sentences, each with its key."""

from __future__ import annotations

import json

import pytest

from compilegate.gate.settings import ExperimentError, read_experiment

ARM = {"compiler": "eager", "batch_size": 8, "learning_rate": 0.01, "precision": "fp32"}
EXPERIMENT = {
    "workload": "prices",
    "baseline": "eager",
    "seeds": [1, 2],
    "arms": {"eager": ARM, "compiled": {**ARM, "compiler": "own"}},
    "settings": {"metrics": {"mae": {"direction": "lower", "margin": 0.05}}},
}


def wrong_with(folder, document) -> list[str]:
    path = folder / "gate.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ExperimentError) as refused:
        read_experiment(path)
    return [problem.removeprefix(f"{path}: ") for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"baseline": "eagr"}, "baseline is 'eagr', allowed: one of the arms eager, compiled"),
        ({"seeds": []}, "seeds: found [], allowed: 1 or more entries"),
        ({"seeds": [1, 1]}, "seeds is [1, 1], allowed: distinct seeds"),
        (
            {"settings": {"metrics": {"mae": {"direction": "lower", "margn": 0.05}}}},
            "settings.metrics.mae.margn is not a known key (did you mean 'margin'?), allowed",
        ),
        (
            {"settings": {"metrics": {"mea": {"direction": "lower", "margin": 0.05}}}},
            "settings: metrics.mea is not a metric of the gate, allowed: accuracy, ",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_what_is_allowed(tmp_path, changed, told):
    (sentence,) = wrong_with(tmp_path, {**EXPERIMENT, **changed})
    assert sentence.startswith(told)


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    arms = {name: {**arm, "batch_size": "8"} for name, arm in EXPERIMENT["arms"].items()}
    found = wrong_with(tmp_path, {**EXPERIMENT, "arms": arms})
    places = [it.partition(":")[0] for it in found]
    assert places == ["arms.eager.batch_size", "arms.compiled.batch_size"]
    assert wrong_with(tmp_path, [1, 2]) == ["the document: found [1, 2], allowed: a table"]
