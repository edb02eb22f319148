"""Tuning steps: several training jobs, and the best of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.execution.status import ExecutionStatus
from compilegate.local import RefusedDefinitionError
from compilegate.local.tuning.search import Range, Search, searcher_for

pytestmark = pytest.mark.slow

CODE = """
import argparse, os, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--kind", default="a")
given, _ = parser.parse_known_args()
if given.kind == "broken":
    raise SystemExit(3)
pathlib.Path(os.environ["SM_MODEL_DIR"], "x").write_text(str(given.rate))
print(f"loss={(given.rate - 3) ** 2 + (given.kind == 'b')}")
"""
CONTINUOUS = {"ContinuousParameterRanges": [{"Name": "rate", "MinValue": "0", "MaxValue": "10"}]}
KINDS = {"CategoricalParameterRanges": [{"Name": "kind", "Values": ["a", "b"]}]}


def tuning(bench: Any, ranges: Any, strategy: str = "Random", **config: Any) -> dict[str, Any]:
    training = bench.training("any", CODE, metrics={"loss": "loss=([0-9.]+)"})["Arguments"]
    static = {**training.pop("HyperParameters"), "rate": "4"}
    arguments = {
        "HyperParameterTuningJobConfig": {
            "Strategy": strategy,
            "ResourceLimits": {"MaxNumberOfTrainingJobs": 3, "MaxParallelTrainingJobs": 2},
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "loss"},
            "ParameterRanges": ranges,
            **config,
        },
        "TrainingJobDefinition": {**training, "StaticHyperParameters": static},
    }
    return {"Name": "tune", "Type": "Tuning", "Arguments": arguments}


@pytest.mark.slow
def test_the_best_job_s_model_is_what_later_steps_take(bench: Any) -> None:
    # As the SDK writes get_top_model_s3_uri.
    top = {"Get": "Steps.tune.TrainingJobSummaries[0].TrainingJobName"}
    values = ["s3:/", "bucket", "training", top, "output/model.tar.gz"]
    model = {"Std:Join": {"On": "/", "Values": values}}
    result = bench.run(
        tuning(bench, KINDS, "Grid"),
        bench.register("register", "models", model),
    )
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    best = result.steps["tune"].properties["BestTrainingJob"]
    assert best["TunedHyperParameters"] == {"kind": "a"}
    assert best["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == 1.0
    counts = result.steps["tune"].properties["TrainingJobStatusCounters"]
    assert counts["Completed"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["Random", "Bayesian", "Hyperband"])
def test_each_strategy_tries_as_many_as_it_may(bench: Any, strategy: str) -> None:
    result = bench.run(tuning(bench, CONTINUOUS, strategy))
    found = result.steps["tune"].properties
    assert found["ObjectiveStatusCounters"]["Succeeded"] == 3, result.failure
    scores = [
        each["FinalHyperParameterTuningJobObjectiveMetric"]["Value"]
        for each in found["TrainingJobSummaries"]
    ]
    assert scores == sorted(scores)


@pytest.mark.slow
def test_a_trial_that_fails_does_not_end_the_search(bench: Any) -> None:
    values = {"CategoricalParameterRanges": [{"Name": "kind", "Values": ["broken", "b"]}]}
    result = bench.run(tuning(bench, values, "Grid"))
    found = result.steps["tune"].properties
    assert found["TrainingJobStatusCounters"]["NonRetryableError"] == 1
    assert found["BestTrainingJob"]["TunedHyperParameters"] == {"kind": "b"}


def test_trials_that_all_fail_are_told_by_the_last(bench: Any) -> None:
    values = {"CategoricalParameterRanges": [{"Name": "kind", "Values": ["broken"]}]}
    result = bench.run(tuning(bench, values, "Grid"))
    assert "no trial of 1 succeeded; the last failed: exit code 3" in result.failure


@pytest.mark.slow
def test_a_target_that_is_reached_ends_the_search(bench: Any) -> None:
    criteria = {"TargetObjectiveMetricValue": 100.0}
    result = bench.run(tuning(bench, CONTINUOUS, TuningJobCompletionCriteria=criteria))
    counts = result.steps["tune"].properties["TrainingJobStatusCounters"]
    assert counts["Completed"] == 1


@pytest.mark.parametrize(
    ("ranges", "strategy", "config", "told"),
    [
        ({}, "Random", {}, "ParameterRanges are empty"),
        (CONTINUOUS, "Grid", {}, "Strategy Grid takes CategoricalParameterRanges alone"),
        (CONTINUOUS, "Guess", {}, "Strategy is 'Guess', allowed: Bayesian, Random"),
        (
            CONTINUOUS,
            "Random",
            {"ResourceLimits": {"MaxNumberOfTrainingJobs": 0}},
            "MaxNumberOfTrainingJobs is 0, allowed: 1 to 750",
        ),
    ],
)
def test_a_search_that_cannot_be_made_is_refused(
    bench: Any, ranges: Any, strategy: str, config: Any, told: str
) -> None:
    with pytest.raises(RefusedDefinitionError, match=told):
        bench.run(tuning(bench, ranges, strategy, **config))


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.tuples(numbers, numbers), st.booleans(), st.floats(0, 1))
def test_a_value_lies_within_its_range(bounds: Any, whole: bool, part: float) -> None:
    low, high = sorted(map(float, map(round, bounds) if whole else bounds))
    value = Range("x", "integer" if whole else "continuous", low, high).at(part)
    assert low <= json.loads(value) <= high


def test_a_search_is_the_same_each_time() -> None:
    ranges = (Range("x", "continuous", 1e-4, 1.0, "Logarithmic"), Range("n", "integer", 1, 9))
    asked = [
        [searcher_for(search).ask() for _ in range(1)]
        for search in [Search(kind, ranges, True, 4, 7) for kind in ("Random", "Bayesian")] * 2
    ]
    assert asked[:2] == asked[2:]
