"""The calibration benchmark: its truth is the truth, and the rules of others are theirs."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest

from compilegate.gate.findings import Outcome
from compilegate.gate.metrics import metric_value
from compilegate.gate.settings import MetricGuard

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks" / "gate"
PUBLISHED = ROOT / "docs" / "gate-calibration.md"


@pytest.fixture
def module(monkeypatch):
    """A function that imports a module of the benchmarks folder."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


@pytest.mark.slow
@pytest.mark.parametrize(
    "metric", ["accuracy", "balanced_accuracy", "macro_f1", "auroc", "log_loss"]
)
@pytest.mark.parametrize("seed_sd", [0.0, 0.01])
def test_large_experiments_come_out_as_the_truth_says(module, metric, seed_sd):
    simulation = module("gate_simulation")
    design = simulation.Design(metric, 20, 20_000, seed_sd, correlation=0.0, harm=2.0)
    found = {"baseline": [], "candidate": []}
    generator = np.random.default_rng(4)
    for _ in range(5):
        baseline, candidate = simulation.draw(design, generator)
        found["baseline"] += [metric_value(metric, examples) for examples in baseline]
        found["candidate"] += [metric_value(metric, examples) for examples in candidate]
    for arm, values in found.items():
        error = np.std(values) / np.sqrt(len(values))
        expected = design.true_value(candidate=arm == "candidate")
        assert np.mean(values) == pytest.approx(expected, abs=5 * error)
    difference = design.true_value(candidate=True) - design.true_value(candidate=False)
    sign = -1.0 if design.guard.direction == "higher" else 1.0
    assert difference == pytest.approx(sign * 2.0 * design.margin)


@pytest.mark.parametrize(
    "changed", [{"harmed_share": 0.02}, {"loss_spread": 0.5}, {"usual_margins": 2.0}]
)
def test_however_the_harm_to_the_log_loss_is_spread_its_mean_is_the_one_declared(module, changed):
    simulation = module("gate_simulation")
    design = simulation.Design("log_loss", 4, 50_000, 0.0, 0.9, harm=2.0, **changed)
    baseline, candidate = simulation.draw(design, np.random.default_rng(6))
    differences = np.mean(
        [after.losses - before.losses for before, after in zip(baseline, candidate, strict=True)],
        axis=0,
    )
    error = differences.std() / np.sqrt(len(differences))
    assert differences.mean() == pytest.approx(2.0 * design.margin, abs=5 * error)
    assert design.true_value(candidate=True) == pytest.approx(0.2 + 2.0 * design.margin)


def test_large_samples_show_the_calibration_error_that_was_declared(module):
    simulation = module("gate_simulation")
    design = simulation.Design("calibration_error", 1, 200_000, 0.0, harm=3.0)
    (baseline,), (candidate,) = simulation.draw(design, np.random.default_rng(7))
    assert metric_value("calibration_error", baseline) == pytest.approx(0.0, abs=0.004)
    assert metric_value("calibration_error", candidate) == pytest.approx(0.06, abs=0.004)


@pytest.mark.slow
def test_the_seeds_of_an_arm_lie_as_far_apart_as_the_design_says(module):
    simulation = module("gate_simulation")
    design = simulation.Design("accuracy", 200, 20_000, 0.016)
    baseline, _ = simulation.draw(design, np.random.default_rng(5))
    values = [metric_value("accuracy", examples) for examples in baseline]
    assert np.std(values, ddof=1) == pytest.approx(0.016, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "passing"),
    [
        (0.951, {"MLflow, threshold", "MLflow, change", "TFMA", "article"}),
        (0.9495, {"MLflow, threshold", "TFMA", "article"}),
        (0.945, {"MLflow, threshold", "TFMA"}),
        (0.93, set()),
    ],
)
def test_the_rules_of_others_judge_two_numbers(module, candidate, passing):
    rules = module("gate_other_rules").RULES
    guard = MetricGuard(direction="higher", margin=0.01)
    assert {name for name, rule in rules.items() if rule(0.95, candidate, guard)} == passing


@pytest.mark.slow
def test_where_lower_is_better_the_rules_turn_round(module):
    rules = module("gate_other_rules").RULES
    guard = MetricGuard(direction="lower", margin=0.03)
    assert all(rule(0.2, 0.19, guard) for rule in rules.values())
    assert not any(rule(0.2, 0.25, guard) for rule in rules.values())


def test_the_interval_of_a_rate_is_wilson_s(module):
    """Against the worked example of Newcombe (Statistics in Medicine 1998), method 3: 15/148."""
    low, high = module("gate_simulation").wilson(15, 148)
    assert (low, high) == pytest.approx((0.0624, 0.1605), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scores", "examples"),
    [
        ("log loss, long (1.5)", 500),
        ("log loss, harm in 1 of 200", 200),
        ("AUROC, 5% positives", 500),
        ("calibration error", 500),
    ],
)
def test_the_gate_keeps_its_promise_on_the_hardest_scores(module, scores, examples):
    """Ten seeds, where the seeds' own uncertainty hides nothing; 29 of 400 are 5% by chance."""
    simulation, hard = module("gate_simulation"), module("gate_hard_scores")
    design = simulation.Design(
        seeds=10, examples=examples, seed_sd=0.0, correlation=0.9, harm=1.0, **hard.SCORES[scores]
    )
    found = hard.verdicts(design, 400, 0.95, stream=3)
    assert found["gate", "pass"] <= 29
    assert found["gate", "pass"] <= found["t alone", "pass"]


@pytest.mark.slow
def test_one_program_makes_the_whole_page(module):
    calibration = module("gate_calibration")
    tiny = calibration.Effort(per_row=2, per_cell=1, per_hard_cell=1, examples=(200,))
    page = "\n\n".join(calibration.report(tiny))
    published = PUBLISHED.read_text(encoding="utf-8")
    headings = [line for line in published.splitlines() if line.startswith("##")]
    assert [line for line in page.splitlines() if line.startswith("##")] == headings
    assert "| all |  | 200 |" in page  # 5 metrics, 5 numbers of seeds, 8 ways to vary


@pytest.mark.slow
def test_the_published_rates_come_out_again(module):
    calibration, simulation = module("gate_calibration"), module("gate_simulation")
    design = simulation.Design("accuracy", 3, 2189, 0.016)
    second_table = itertools.count(len(calibration.HARMS))
    made = calibration.by_harm(design, calibration.FULL.per_row, second_table)
    assert made in PUBLISHED.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_is_clearly_faster_passes_by_pairs_on_a_quiet_machine(module):
    speed = module("gate_speed")
    quiet = speed.MACHINES["quiet"]
    assert speed.judged(quiet, 1.4, 0.2, (3, 10), 0).by_pairs == {Outcome.PASS: 10}
    assert speed.judged(quiet, 1.1, 0.2, (3, 10), 1).by_pairs == {Outcome.FAIL: 10}


def test_the_published_rates_of_the_speed_up_are_those_of_every_machine(module):
    speed = module("gate_speed")
    page = (ROOT / "docs" / "speed-calibration.md").read_text(encoding="utf-8")
    for name in speed.MACHINES:
        for rest in speed.RESTS:
            assert f"| {name} | {rest:.0%} | 3 |" in page


def test_a_run_that_was_cut_short_goes_on_where_it_stopped(module, tmp_path):
    kept = module("gate_kept").Kept()
    kept.folder = tmp_path
    assert kept.counts("one", lambda: {"gate": 3}) == {"gate": 3}

    again = module("gate_kept").Kept()
    again.folder = tmp_path
    assert again.counts("one", lambda: {"gate": 9}) == {"gate": 3}
    assert again.counts("another", lambda: {"gate": 9}) == {"gate": 9}
    assert again.counts("another", dict)["without"] == 0


def test_the_designs_that_fool_a_bound_are_counted_alike_each_time(module):
    adverse = module("gate_adverse")
    design = next(each for each in adverse.adverse_designs() if "log-normal" in each.name)
    first, second = (adverse.verdicts(design, 1.0, 3, 1000) for _ in range(2))
    assert first == second
    assert sum(first.values()) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quiet machine, 2 seeds", "interrupted jobs"])
def test_honest_experiments_are_refused_by_their_bounds_alone(module, name):
    honest = module("gate_honest")
    work = next(each for each in honest.works() if each.name == name)
    found = honest.judged(work, 1.5, 2, 1)
    assert found["refused"] == 0
    assert set(found) == {"pass", "refused"}


def test_every_design_that_fools_a_bound_is_on_its_page(module):
    page = (ROOT / "docs" / "gate-adverse.md").read_text(encoding="utf-8")
    for design in module("gate_adverse_designs").adverse_designs():
        assert f"| {design.name} | {design.rows:,} | {design.seeds} |" in page
    for jobs in module("gate_adverse_speed").adverse_jobs():
        assert f"| {jobs.name} | {jobs.jobs} |" in page


@pytest.mark.slow
def test_the_best_test_of_few_seeds_costs_more_where_noise_hides_the_harm(module):
    least = module("gate_least_seeds")
    quiet, noisy = (
        least.of_the_best(np.random.default_rng(1), 3, noise, 1000) for noise in (0.03, 0.1)
    )
    assert quiet < 0.03
    assert 0.06 < noisy < 0.25
