"""Quality: is the candidate's model as good as the baseline's, to within the margin?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compilegate.gate.quality.comparison import arm_scores, compare_scores
from compilegate.gate.quality.noninferiority import conclude, noise_floor
from compilegate.gate.reasons import Code, Outcome
from compilegate.gate.settings import MetricGuard
from compilegate.job.evidence import Examples

ACCURACY = MetricGuard(direction="higher", margin=0.01)
LOG_LOSS = MetricGuard(direction="lower", margin=0.05)


def judge_metric(metric, guard, baseline, candidate, confidence):
    """Compare the replicates of two arms; the reason, or the note, says the outcome in words."""
    measure = guard.measure(metric)
    before, after = arm_scores(measure, baseline), arm_scores(measure, candidate)
    return conclude(compare_scores(metric, guard, before, after), confidence)


def replicate(correct: np.ndarray) -> Examples:
    """Two balanced classes; right where `correct` is true."""
    labels = np.arange(len(correct)) % 2
    scores = np.full((len(correct), 2), 0.1)
    scores[np.arange(len(correct)), np.where(correct, labels, 1 - labels)] = 0.9
    ids = np.array([f"{index:06d}" for index in range(len(correct))])
    return Examples(ids, labels, scores, -np.log(scores[np.arange(len(correct)), labels]))


def arm(seed: int, *, seeds: int = 3, examples: int = 2000, errors: float = 0.05) -> list[Examples]:
    """Replicates that share most of their mistakes."""
    easy = np.random.default_rng(99).random(examples) >= errors
    generator = np.random.default_rng(seed)
    return [replicate(easy ^ (generator.random(examples) < 0.004)) for _ in range(seeds)]


def worse(replicates: list[Examples], share: float) -> list[Examples]:
    """The same replicates, wrong on a further share of the examples."""
    changed = []
    for examples in replicates:
        correct = examples.scores.argmax(axis=1) == examples.labels
        correct[: int(share * len(correct))] = False
        changed.append(replicate(correct))
    return changed


def test_a_candidate_that_agrees_passes():
    judgement, reason = judge_metric("accuracy", ACCURACY, arm(1), arm(2), 0.95)
    assert judgement.outcome is Outcome.PASS
    assert reason.code is Code.QUALITY_NOT_WORSE
    assert -0.01 < judgement.delta.lower < judgement.delta.estimate < judgement.delta.upper


@pytest.mark.parametrize(("seeds", "told"), [(2, "78%"), (3, "63%"), (4, "53%")])
def test_a_pass_with_few_seeds_says_what_they_do_not_show(seeds, told):
    arms = arm(1, seeds=seeds), arm(2, seeds=seeds)
    judgement, reason = judge_metric(
        "accuracy", MetricGuard(direction="higher", margin=0.05), *arms, 0.95
    )
    assert judgement.outcome is Outcome.PASS
    assert reason.sentence.endswith(
        f" With {seeds} seeds, up to {told} of seeds may lose more than the worst of these did."
    )


def test_with_five_seeds_a_pass_leaves_that_to_the_rate_of_failures():
    _, reason = judge_metric("accuracy", ACCURACY, arm(1, seeds=5), arm(2, seeds=5), 0.95)
    assert reason.outcome is Outcome.PASS
    assert "may lose" not in reason.sentence


def test_a_candidate_that_is_worse_by_more_than_the_margin_fails():
    judgement, reason = judge_metric("accuracy", ACCURACY, arm(1), worse(arm(2), 0.04), 0.95)
    assert judgement.outcome is Outcome.FAIL
    assert reason.code is Code.QUALITY_WORSE
    assert judgement.delta.upper < -0.01


def test_a_candidate_at_the_margin_is_inconclusive_and_names_the_remedy():
    judgement, reason = judge_metric("accuracy", ACCURACY, arm(1), worse(arm(2), 0.008), 0.95)
    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert reason.code is Code.QUALITY_UNDECIDED
    assert judgement.delta.lower < -0.01 < judgement.delta.upper


def test_the_number_of_seeds_that_would_settle_it_is_named():
    noisy = [
        worse([examples], share)[0]
        for examples, share in zip(arm(2), (0.000, 0.004, 0.008), strict=True)
    ]
    judgement, reason = judge_metric("accuracy", ACCURACY, arm(1), noisy, 0.95)
    assert judgement.outcome is Outcome.INCONCLUSIVE
    needed = judgement.seeds_needed
    assert needed is not None
    assert needed > 3
    assert f"about {needed} seeds instead of 3" in reason.sentence


def test_where_examples_are_too_few_no_number_of_seeds_is_named():
    judgement, reason = judge_metric(
        "accuracy", ACCURACY, arm(1, examples=60), arm(2, examples=60), 0.95
    )
    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert judgement.seeds_needed is None
    assert judgement.examples_needed > 60
    told = f"about {judgement.examples_needed:,} validation examples instead of 60 would"
    assert f"more seeds alone would not settle it, {told}" in reason.sentence


def test_total_agreement_on_a_handful_of_examples_is_no_pass():
    few = arm(1, examples=40)
    judgement, _ = judge_metric("accuracy", ACCURACY, few, few, 0.95)
    assert judgement.delta.estimate == 0.0
    assert judgement.outcome is Outcome.INCONCLUSIVE


def test_with_one_seed_nothing_passes_and_the_reason_says_why():
    judgement, reason = judge_metric("accuracy", ACCURACY, arm(1, seeds=1), arm(2, seeds=1), 0.95)
    assert judgement.delta.lower > -0.01
    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert reason.code is Code.QUALITY_SINGLE_SEED
    assert judgement.seed_sd is None
    assert "declare two or more seeds" in reason.sentence


def test_with_one_seed_a_model_that_is_clearly_worse_still_fails():
    judgement, reason = judge_metric(
        "accuracy", ACCURACY, arm(1, seeds=1), worse(arm(2, seeds=1), 0.05), 0.95
    )
    assert judgement.outcome is Outcome.FAIL
    assert "one model" in reason.sentence


def losses_of(values: np.ndarray) -> Examples:
    """A log loss alone, with no classes behind it."""
    count = len(values)
    ids = np.array([f"{index:06d}" for index in range(count)])
    return Examples(ids, np.zeros(count, dtype=np.int64), np.empty((count, 0)), values)


def with_losses(losses: np.ndarray, seed: int) -> list[Examples]:
    """Three replicates with these losses, but for a little noise of their own."""
    generator = np.random.default_rng(seed)
    return [losses_of(losses * generator.lognormal(0.0, 0.02, len(losses))) for _ in range(3)]


def test_a_harm_that_so_few_examples_need_not_hold_does_not_pass_and_the_reason_says_how_many_do():
    losses = np.full(200, 0.1)
    losses[0] = 6.0
    judgement, reason = judge_metric(
        "log_loss", LOG_LOSS, with_losses(losses, 1), with_losses(losses, 2), 0.95
    )
    assert judgement.delta.upper < 0.05
    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert judgement.seeds_needed is None
    assert reason.code is Code.QUALITY_LONG_TAIL
    needed = reason.numbers["examples_needed"]
    worst = 6.0 - losses.mean()
    assert (1.0 - 0.05 / worst) ** needed < 0.05 < (1.0 - 0.05 / worst) ** (0.9 * needed)
    assert f"about {needed:,} validation examples instead of 200 would" in reason.sentence


def test_as_many_examples_as_were_named_do_pass():
    losses = np.full(400, 0.1)
    losses[:2] = 6.0
    arms = with_losses(losses, 1), with_losses(losses, 2)
    assert judge_metric("log_loss", LOG_LOSS, *arms, 0.95)[0].outcome is Outcome.PASS


def test_where_seeds_are_needed_too_both_are_named():
    losses = np.full(200, 0.1)
    losses[0] = 6.0
    shifts = (0.0, 0.0, 0.04)
    baseline = with_losses(losses, 1)
    candidate = [
        losses_of(one.losses + shift)
        for one, shift in zip(with_losses(losses, 2), shifts, strict=True)
    ]
    judgement, reason = judge_metric("log_loss", LOG_LOSS, baseline, candidate, 0.95)
    assert (judgement.seeds_needed, judgement.examples_needed) == (None, None)
    assert "neither more seeds nor more examples alone would settle it" in reason.sentence
    assert "seeds with 360 validation examples would" in reason.sentence


def test_what_is_clearly_worse_fails_however_long_the_tail():
    losses = np.full(200, 0.1)
    losses[0] = 6.0
    judgement, _ = judge_metric(
        "log_loss", LOG_LOSS, with_losses(losses, 1), with_losses(losses + 1.0, 2), 0.95
    )
    assert judgement.outcome is Outcome.FAIL


def test_differences_with_too_long_a_tail_name_the_examples_that_would_show_it():
    generator = np.random.default_rng(3)
    losses = generator.lognormal(-3.0, 1.5, 300)
    harm = 0.05 * generator.lognormal(-1.5, 1.8, 300)
    judgement, reason = judge_metric(
        "log_loss", LOG_LOSS, with_losses(losses, 1), with_losses(losses + harm, 2), 0.95
    )
    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert reason.code is Code.QUALITY_LONG_TAIL
    assert reason.numbers["examples_needed"] > 300
    assert "too long a tail" in reason.sentence


@pytest.mark.parametrize("rounding", [0.0, 1e-16, 1e-13, 1e-7])
@pytest.mark.parametrize(("examples", "outcome"), [(500, Outcome.PASS), (50, Outcome.INCONCLUSIVE)])
def test_losses_that_agree_to_rounding_or_to_the_last_bit_are_judged_alike(
    rounding, examples, outcome
):
    """What bounds the harm is the worst example that so few need not hold."""
    losses = np.random.default_rng(4).exponential(0.2, examples)
    before = [losses_of(losses)] * 3
    noise = np.random.default_rng(5).uniform(-rounding, rounding, (3, examples))
    after = [losses_of(losses * (1.0 + each)) for each in noise]
    judgement, reason = judge_metric("log_loss", LOG_LOSS, before, after, 0.95)
    assert judgement.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert reason.code is Code.QUALITY_LONG_TAIL
        assert judgement.examples_needed > examples


def test_losses_that_are_one_number_everywhere_show_nothing():
    replicates = [losses_of(np.full(500, 0.3))] * 3
    judgement, reason = judge_metric("log_loss", LOG_LOSS, replicates, replicates, 0.95)
    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert reason.code is Code.QUALITY_NO_SPREAD


def test_lower_is_better_for_log_loss():
    better, _ = judge_metric("log_loss", LOG_LOSS, worse(arm(1), 0.04), arm(2), 0.95)
    poorer, _ = judge_metric("log_loss", LOG_LOSS, arm(1), worse(arm(2), 0.04), 0.95)
    assert better.outcome is Outcome.PASS
    assert better.delta.estimate < 0.0
    assert poorer.outcome is Outcome.FAIL
    assert poorer.limit == 0.05


def test_a_relative_margin_is_a_fraction_of_the_baseline_s_value():
    relative = MetricGuard(direction="higher", margin=0.02, relative=True)
    judgement, _ = judge_metric("accuracy", relative, arm(1), arm(2), 0.95)
    assert judgement.margin == pytest.approx(0.02 * judgement.baseline)
    assert judgement.relative_margin == 0.02
    assert judgement.outcome is Outcome.PASS
    strict = MetricGuard(direction="higher", margin=0.0001, relative=True)
    assert judge_metric("accuracy", strict, arm(1), arm(2), 0.95)[0].outcome is not Outcome.PASS


def test_the_noise_floor_is_the_baseline_s_own_spread_over_seeds():
    replicates = [*arm(1, seeds=1), *worse(arm(1, seeds=1), 0.02), *worse(arm(1, seeds=1), 0.04)]
    accuracies = [np.mean(item.scores.argmax(axis=1) == item.labels) for item in replicates]
    floor = noise_floor("accuracy", accuracies)
    assert floor.mean == pytest.approx(np.mean(accuracies))
    assert floor.seed_sd == pytest.approx(np.std(accuracies, ddof=1))
    assert floor.seeds == 3


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    first=st.integers(0, 1000),
    second=st.integers(0, 1000),
    share=st.floats(0.0, 0.05),
    metric=st.sampled_from(
        ["accuracy", "balanced_accuracy", "macro_f1", "auroc", "log_loss", "calibration_error"]
    ),
)
def test_swapping_the_arms_mirrors_the_interval_but_for_lopsided_harm(first, second, share, metric):
    """The bound on the harm's side is wider than the other one's mirror, or as wide."""
    guard = LOG_LOSS if metric == "log_loss" else ACCURACY
    one, other = arm(first, examples=300), worse(arm(second, examples=300), share)
    forth = judge_metric(metric, guard, one, other, 0.95)[0].delta
    back = judge_metric(metric, guard, other, one, 0.95)[0].delta
    assert forth.estimate == pytest.approx(-back.estimate, abs=1e-12)
    harm, gain = ("lower", "upper") if guard.direction == "higher" else ("upper", "lower")
    for one_way, other_way in ((forth, back), (back, forth)):
        to_harm = abs(getattr(one_way, harm) - one_way.estimate)
        to_gain = abs(getattr(other_way, gain) - other_way.estimate)
        assert to_harm >= to_gain - 1e-9


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    first=st.integers(0, 1000),
    second=st.integers(0, 1000),
    shares=st.lists(st.floats(0.0, 0.2), min_size=1, max_size=4),
    repeated=st.integers(0, 3),
    guarded=st.sampled_from([("accuracy", ACCURACY), ("auroc", ACCURACY), ("log_loss", LOG_LOSS)]),
)
def test_an_identical_replicate_never_turns_a_fail_into_a_pass(
    first, second, shares, repeated, guarded
):
    """Nor does it make one out of nothing: a replicate that adds no information adds no proof."""
    baseline = arm(first, seeds=len(shares), examples=300)
    candidate = [
        worse([examples], share)[0]
        for examples, share in zip(
            arm(second, seeds=len(shares), examples=300), shares, strict=True
        )
    ]
    before = judge_metric(*guarded, baseline, candidate, 0.95)[0].outcome
    again = repeated % len(shares)
    after = judge_metric(
        *guarded,
        [*baseline, baseline[again]],
        [*candidate, candidate[again]],
        0.95,
    )[0].outcome
    if before is Outcome.FAIL:
        assert after is not Outcome.PASS


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(share=st.floats(0.0, 0.06), more=st.floats(0.0, 0.05))
def test_a_candidate_that_is_worse_still_never_does_better(share, more):
    order = [Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS]
    one, two = (
        judge_metric("accuracy", ACCURACY, arm(1), worse(arm(2), amount), 0.95)[0].outcome
        for amount in (share, share + more)
    )
    assert order.index(two) <= order.index(one)
