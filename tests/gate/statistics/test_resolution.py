"""The smallest margin that a design can show, before it is run and after."""

from __future__ import annotations

import numpy as np
import pytest

from compilegate.gate.quality.resolution import Design, check_margins
from compilegate.gate.reasons import Code
from compilegate.gate.settings import GateSettings
from compilegate.gate.statistics.difference_interval import crossed_mean


def checked(seeds, *, candidates=1, examples=None, **guard):
    declared = {"direction": "higher", "margin": 0.01, **guard}
    settings = GateSettings.model_validate({"metrics": {"accuracy": declared}})
    return check_margins(settings, Design(seeds, candidates, examples))[0]


@pytest.mark.parametrize("seeds", [3, 6])
def test_an_equal_candidate_passes_eight_times_of_ten_at_the_smallest_margin(seeds):
    seed_sd = 0.005
    smallest = checked(seeds, expected_seed_sd=seed_sd).smallest
    generator = np.random.default_rng(seeds)
    passed = 0
    for _ in range(2000):
        by_seed = generator.normal(0.0, seed_sd, (2, seeds))
        analysed = crossed_mean(np.repeat((by_seed[0] - by_seed[1])[:, None], 5, axis=1))
        passed += analysed.mean + smallest - analysed.half_width(0.95) > 0.0
    assert passed / 2000 == pytest.approx(0.8, abs=0.06)


def test_a_margin_below_the_resolution_is_told_with_the_seeds_that_it_takes():
    check = checked(3, expected_seed_sd=0.0042)
    assert check.resolvable is False
    assert check.smallest > 0.01
    assert "3 seeds with a standard deviation of 0.42 points show a margin of" in check.sentence
    enough = int(check.sentence.split("declare about ")[1].split()[0])
    assert checked(enough, expected_seed_sd=0.0042).resolvable is True
    assert checked(enough - 1, expected_seed_sd=0.0042).resolvable is False


def test_a_margin_far_above_the_resolution_is_fine():
    check = checked(5, expected_seed_sd=0.001, margin=0.02)
    assert check.resolvable is True
    assert check.smallest < 0.02


def test_more_candidates_and_fewer_examples_make_the_smallest_margin_larger():
    one = checked(5, expected_seed_sd=0.002, examples=100_000).smallest
    assert checked(5, expected_seed_sd=0.002, examples=100_000, candidates=3).smallest > one
    assert checked(5, expected_seed_sd=0.002, examples=200).smallest > 2.9 / 200


def test_one_seed_shows_no_margin_whatever_is_known():
    assert checked(1, expected_seed_sd=0.001).resolvable is False
    assert "declare two or more seeds" in checked(1).sentence


@pytest.mark.parametrize(
    ("guard", "told"),
    [
        ({}, "not known before the first run"),
        ({"relative": True, "expected_seed_sd": 0.01}, "the margin is relative"),
    ],
)
def test_what_is_not_known_is_said_to_be_so(guard, told):
    check = checked(3, **guard)
    assert (check.resolvable, check.smallest) == (None, None)
    assert told in check.sentence


def test_no_number_of_seeds_is_named_where_none_would_do():
    assert "not even 100 seeds" in checked(3, expected_seed_sd=0.2).sentence


def test_the_verdict_says_which_margins_its_evidence_could_not_resolve(new_execution):
    def told(**changes):
        notes = new_execution(**changes).judge().candidates[0].notes
        return [note for note in notes if note.code is Code.MARGIN_BELOW_RESOLUTION]

    assert told() == []
    strict = {"accuracy": {"direction": "higher", "margin": 0.0005}}
    (note,) = told(metrics=strict)
    assert "the margin of 0.05 points is below what 3 seeds" in note.sentence
    assert note.numbers["smallest"] > 0.0005
