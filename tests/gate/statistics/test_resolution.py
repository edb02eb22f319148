"""The smallest margin that a design can show, before it is run and after."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compilegate.gate.quality.resolution import (
    Design,
    check_failure_rate,
    check_margins,
    never_passing,
)
from compilegate.gate.reasons import Code
from compilegate.gate.settings import GateSettings
from compilegate.gate.statistics.difference_interval import crossed_mean


def checked(seeds, *, candidates=1, examples=None, **guard):
    declared = {"direction": "higher", "margin": 0.01, **guard}
    settings = GateSettings.model_validate({"metrics": {"accuracy": declared}})
    return check_margins(settings, Design(seeds, candidates, examples))[0]


def smallest_told(sentence):
    """The margin, in the metric's units, that a sentence says the design shows at best."""
    return float(re.search(r"show a margin of ([\d.]+) points at best", sentence)[1]) / 100


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 6])
def test_an_equal_candidate_passes_eight_times_of_ten_at_the_smallest_margin(seeds):
    seed_sd = 0.005
    smallest = smallest_told(checked(seeds, expected_seed_sd=seed_sd))
    generator = np.random.default_rng(seeds)
    passed = 0
    for _ in range(2000):
        by_seed = generator.normal(0.0, seed_sd, (2, seeds))
        analysed = crossed_mean(np.repeat((by_seed[0] - by_seed[1])[:, None], 5, axis=1))
        passed += analysed.mean + smallest - analysed.half_width(0.95) > 0.0
    assert passed / 2000 == pytest.approx(0.8, abs=0.06)


def test_a_margin_below_the_resolution_is_told_with_the_seeds_that_it_takes():
    told = checked(3, expected_seed_sd=0.0042)
    assert smallest_told(told) > 0.01
    assert "3 seeds with a standard deviation of 0.42 points show a margin of" in told
    enough = int(told.split("declare about ")[1].split()[0])
    assert "declare" not in checked(enough, expected_seed_sd=0.0042)
    assert f"declare about {enough} seeds" in checked(enough - 1, expected_seed_sd=0.0042)


def test_a_margin_far_above_the_resolution_is_fine():
    told = checked(5, expected_seed_sd=0.001, margin=0.02)
    assert smallest_told(told) < 0.02
    assert "at best; the margin is 2.00 points" in told


def test_more_candidates_and_fewer_examples_make_the_smallest_margin_larger():
    def smallest(examples, candidates=1):
        told = checked(5, expected_seed_sd=0.002, examples=examples, candidates=candidates)
        return smallest_told(told)

    assert smallest(100_000, candidates=3) > smallest(100_000)
    assert smallest(200) > 2.9 / 200


def test_one_seed_shows_no_margin_whatever_is_known():
    assert "declare two or more seeds" in checked(1, expected_seed_sd=0.001)
    assert "declare two or more seeds" in checked(1)


@pytest.mark.parametrize(
    ("guard", "told"),
    [
        ({}, "not known before the first run"),
        ({"relative": True, "expected_seed_sd": 0.01}, "the margin is relative"),
    ],
)
def test_what_is_not_known_is_said_to_be_so(guard, told):
    assert told in checked(3, **guard)


def test_no_number_of_seeds_is_named_where_none_would_do():
    assert "not even 100 seeds" in checked(3, expected_seed_sd=0.2)


@pytest.mark.slow
def test_the_verdict_says_which_margins_its_evidence_could_not_resolve(new_execution):
    def told(**changes):
        notes = new_execution(**changes).judge().candidates[0].notes
        return [note for note in notes if note.code is Code.MARGIN_BELOW_RESOLUTION]

    assert told() == []
    strict = {"accuracy": {"direction": "higher", "margin": 0.0005}}
    (note,) = told(metrics=strict)
    assert "the margin is 0.05 points, and 3 seeds with these examples can show" in note.sentence
    assert note.numbers["smallest"] > 0.0005


@pytest.mark.parametrize(
    ("metric", "guard", "examples", "told"),
    [
        ("accuracy", {"margin": 0.01}, 200, "no candidate that is as good can pass with 200"),
        ("accuracy", {"margin": 0.01}, None, "it takes 300 validation examples or more"),
        ("auroc", {"margin": 0.02}, None, "it takes 74 validation examples of the rarer class"),
        ("mse", {"margin": 0.05, "relative": True}, 200, "no candidate can pass with 200"),
        ("mse", {"margin": 0.05, "relative": True}, 200, "or more, and about 40,000 where"),
        (
            "mse",
            {"margin": 0.05, "relative": True},
            5000,
            "; it takes about 40,000 where",
        ),
        ("mse", {"margin": 0.05, "relative": True}, None, "or more, and about 40,000 where"),
        (
            "log_loss",
            {"margin": 0.03, "worst_example": 15.0},
            500,
            "no candidate can pass with 500",
        ),
    ],
)
def test_a_design_that_can_never_pass_is_told_before_it_is_run(metric, guard, examples, told):
    lower = metric in ("mse", "log_loss")
    guard = {"direction": "lower" if lower else "higher", **guard}
    settings = GateSettings(metrics={metric: guard})
    (sentence,) = check_margins(settings, Design(3, 1, examples))
    assert told in sentence


def test_where_even_long_tails_show_nothing_is_said_of_them():
    guard = {"direction": "lower", "margin": 0.05, "relative": True}
    settings = GateSettings(metrics={"mse": guard})
    (sentence,) = check_margins(settings, Design(3, 1, 100_000))
    assert "long tail" not in sentence


def test_only_designs_that_can_never_pass_are_told_to_be_such():
    metrics = {
        "accuracy": {"direction": "higher", "margin": 0.01},
        "auroc": {"direction": "higher", "margin": 0.02},
    }
    settings = GateSettings(metrics=metrics)
    assert never_passing(settings, Design(3, 1)) == ()
    assert never_passing(settings, Design(3, 1, 1000)) == ()
    found = never_passing(settings, Design(1, 1, 120))
    assert [sentence.partition(" ")[0] for sentence in found[:2]] == [
        "metrics.accuracy:",
        "metrics.auroc:",
    ]
    assert "declare two or more" in found[2]


def test_a_rate_of_failures_that_the_seeds_cannot_show_is_told_before_they_are_trained():
    metrics = {"accuracy": {"direction": "higher", "margin": 0.01}}
    asked = GateSettings(metrics=metrics, max_failure_rate=0.1)
    assert "takes 29 seeds without a failure, and 3 are declared" in str(
        check_failure_rate(asked, Design(3, 1))
    )
    assert check_failure_rate(asked, Design(29, 1)) is None
    assert check_failure_rate(GateSettings(metrics=metrics), Design(3, 1)) is None
