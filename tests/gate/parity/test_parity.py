"""The judgement of a parity probe: what eager's own rounding explains, and what it does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from compilegate.gate.judgements import ParityAnswer, ParityJudgement
from compilegate.gate.parity import judge_replicate, speaker
from compilegate.gate.settings import ParitySettings
from compilegate.job.evidence import (
    CompilerRecord,
    Evidence,
    EvidenceRecord,
    ParityErrors,
    ParityRecord,
    SpeedRecord,
)
from compilegate.job.evidence.ratios import EPSILON, lasting

SETTINGS = ParitySettings(fp32_limit=20.0, bf16_limit=4.0)
SHAPE = (3, 12)
EAGER = np.random.default_rng(0).uniform(2e-7, 6e-7, SHAPE)
EXPLAINED = EAGER.max(axis=0)
"""By tensor, the largest error of eager's over the steps: its rounding explains that much."""

factors = arrays(float, SHAPE, elements=st.floats(0.0, 30.0))
places = st.tuples(st.integers(0, SHAPE[0] - 1), st.integers(0, SHAPE[1] - 1))


def errors(**changed: Any) -> ParityErrors:
    gradients = [f"gradient of layer.{index}" for index in range(SHAPE[1] - 2)]
    whole = {
        "tensors": np.array(["loss", "logits", *gradients]),
        "eager": EAGER,
        "repeated": np.zeros(SHAPE),
        "compiled": 1.5 * EAGER,
    }
    return ParityErrors(**{**whole, **changed})


def record(
    found: ParityErrors | None, parity: ParityRecord | None = None, precision: str = "fp32"
) -> EvidenceRecord:
    """The evidence of a job that trained in this precision and has these parity errors."""
    evidence = Evidence(
        job="job-1",
        arm="compiler-only",
        seed=1,
        recipe={"precision": precision},
        compiler=CompilerRecord(name="inductor", ran=True),
        speed=SpeedRecord(100.0, 1, 1.0, 2.0),
        parity=parity or ParityRecord(precision, steps=SHAPE[0], seconds=0.1),
    )
    return EvidenceRecord(evidence, None, None, found)


def judged(precision: str = "fp32", **changed: Any) -> ParityJudgement:
    return judge_replicate(1, record(errors(**changed), precision=precision), SETTINGS)


def changed_at(array: np.ndarray, place: tuple[int, int], value: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


def test_errors_like_eagers_pass_and_the_sentence_names_the_worst_of_them() -> None:
    judgement = judged(compiled=changed_at(1.5 * EAGER, (1, 4), 3 * EXPLAINED[4]))
    assert judgement.answer is ParityAnswer.PASS
    assert judgement.median_ratio == pytest.approx(np.median(1.5 * EAGER / EXPLAINED), rel=0.1)
    assert judgement.sentence == (
        "The compiled arithmetic matches eager's: over 3 steps and 12 tensors its error is at most "
        "3 times what eager's rounding explains (gradient of layer.2, step 1); the limit in fp32 "
        "is 20 times."
    )


def test_one_tensor_that_errs_more_in_every_step_fails_and_is_named() -> None:
    compiled = 1.5 * EAGER
    compiled[:, 7] = [2e-3, 1e-3, 3e-3]
    judgement = judged(compiled=compiled)
    assert judgement.answer is ParityAnswer.FAIL
    assert judgement.worst is not None
    assert (judgement.worst.tensor, judgement.worst.step) == ("gradient of layer.5", 2)
    assert judgement.worst.ratio == pytest.approx(3e-3 / EXPLAINED[7])
    assert judgement.sentence.startswith("The error of the compiled gradient of layer.5 ")
    assert "(3.0e-03 against float64, eager " in judgement.sentence
    assert judgement.sentence.endswith(
        ", and beyond the limit in most steps (fp32: 20 times): "
        "the compiler does not compute what eager does."
    )


def test_a_single_step_that_errs_more_cannot_be_told_from_a_kink() -> None:
    judgement = judged(compiled=changed_at(1.5 * EAGER, (2, 7), 1e-4))
    assert judgement.answer is ParityAnswer.CANNOT_TELL
    assert judgement.sentence.startswith(
        "Parity cannot tell: the error of the compiled gradient of layer.5 "
    )
    assert "in most of the 3 steps (but in 1): the cause may be rounding" in judgement.sentence


@pytest.mark.parametrize(
    ("column", "lasts"),
    [([9.0], 9.0), ([9.0, 1.0], 1.0), ([1.0, 9.0, 8.0], 8.0), ([9.0, 1.0, 2.0, 8.0], 2.0)],
)
def test_what_lasts_is_reached_in_more_than_half_of_the_steps(
    column: list[float], lasts: float
) -> None:
    assert lasting(np.array([column]).T) == [lasts]


@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_the_limit_is_where_it_is_declared_to_be(factor: float) -> None:
    compiled = 1.5 * EAGER
    compiled[:, 3] = factor * 20.0 * EXPLAINED[3]
    expected = ParityAnswer.PASS if factor < 1 else ParityAnswer.FAIL
    assert judged(compiled=compiled).answer is expected


def test_a_tensor_on_which_eager_is_exact_by_luck_raises_no_alarm() -> None:
    lucky = EAGER.copy()
    lucky[:, 0] = 0.0
    compiled = 1.5 * EAGER
    compiled[:, 0] = EPSILON["fp32"]
    judgement = judged(eager=lucky, compiled=compiled)
    assert judgement.answer is ParityAnswer.PASS


def test_bf16_has_its_own_epsilon_and_its_own_limit() -> None:
    ten_per_cent_off = np.full(SHAPE, 0.1)
    assert judged("bf16", eager=np.full(SHAPE, 0.006), compiled=ten_per_cent_off).answer is (
        ParityAnswer.FAIL
    )
    alike = judged("bf16", eager=np.full(SHAPE, 0.006), compiled=np.full(SHAPE, 0.009))
    assert alike.answer is ParityAnswer.PASS
    assert alike.limit == 4.0


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
def test_a_compiled_tensor_that_is_not_finite_fails(value: float) -> None:
    judgement = judged(compiled=changed_at(EAGER, (0, 1), value))
    assert judgement.answer is ParityAnswer.FAIL
    assert judgement.worst is not None
    assert (judgement.worst.tensor, judgement.worst.ratio) == ("logits", None)
    assert "logits is beyond all numbers in step 0" in judgement.sentence


def test_an_eager_run_that_does_not_repeat_itself_tells_nothing() -> None:
    judgement = judged(repeated=changed_at(np.zeros(SHAPE), (1, 1), 1e-4), compiled=EAGER * 1e4)
    assert judgement.answer is ParityAnswer.CANNOT_TELL
    assert judgement.worst is None
    assert judgement.sentence == (
        "Parity cannot tell: two eager runs of step 1 differ by 1.0e-04 in the logits, so that "
        "nothing can be measured against it."
    )


@pytest.mark.parametrize(
    ("factor", "answer"), [(1.99, ParityAnswer.PASS), (2.01, ParityAnswer.CANNOT_TELL)]
)
def test_two_eager_runs_may_differ_by_the_errors_of_both(
    factor: float, answer: ParityAnswer
) -> None:
    repeated = changed_at(1.4 * EAGER, (1, 1), factor * EXPLAINED[1])
    assert judged(repeated=repeated).answer is answer


def test_an_eager_run_that_is_not_finite_tells_nothing() -> None:
    judgement = judged(eager=changed_at(EAGER, (2, 0), np.nan))
    assert judgement.answer is ParityAnswer.CANNOT_TELL
    assert "eager itself is not finite in the loss in step 2" in judgement.sentence


def test_a_reference_that_is_far_from_eager_everywhere_tells_nothing() -> None:
    """As where float64 drops other units than eager does."""
    judgement = judged(eager=np.full(SHAPE, 0.4), compiled=np.full(SHAPE, 0.4))
    assert judgement.answer is ParityAnswer.CANNOT_TELL
    assert "close enough to float64 in only 0 of 12 tensors" in judgement.sentence


@pytest.mark.parametrize(
    ("coarse", "answer"),
    [
        (dict.fromkeys(range(2), 0.026), ParityAnswer.CANNOT_TELL),  # 10 of 12 show something
        (dict.fromkeys(range(1), 0.026), ParityAnswer.PASS),
        (dict.fromkeys(range(2), 0.024), ParityAnswer.PASS),  # 20 times that is less than half
    ],
)
def test_nine_of_ten_tensors_must_show_an_error_of_half_their_size(
    coarse: dict[int, float], answer: ParityAnswer
) -> None:
    eager = EAGER.copy()
    for tensor, error in coarse.items():
        eager[:, tensor] = error
    assert judged(eager=eager, compiled=eager).answer is answer


def test_one_coarse_tensor_is_left_out_and_the_others_speak() -> None:
    coarse = EAGER.copy()
    coarse[:, 5] = 0.3
    judgement = judged(eager=coarse, compiled=coarse)
    assert (judgement.answer, judgement.judged) == (ParityAnswer.PASS, 11)
    assert "3 steps and 11 tensors" in judgement.sentence
    off = coarse.copy()
    off[:, 6] = 0.01
    wrong = judged(eager=coarse, compiled=off)
    assert wrong.answer is ParityAnswer.FAIL
    broken = judged(eager=coarse, compiled=changed_at(coarse, (0, 5), np.nan))
    assert broken.answer is ParityAnswer.FAIL


def test_a_job_without_parity_cannot_tell() -> None:
    silent = record(None)
    silent = dataclasses.replace(silent, evidence=dataclasses.replace(silent.evidence, parity=None))
    assert judge_replicate(1, silent, SETTINGS) == ParityJudgement(
        ParityAnswer.CANNOT_TELL,
        "Parity cannot tell: the job did not compare its steps with eager ones.",
        seed=1,
    )


def test_an_obstacle_is_quoted_on_one_line() -> None:
    obstacle = ParityRecord("fp32", 0, 0.1, "it has no\nfloat64")
    judgement = judge_replicate(1, record(None, obstacle), SETTINGS)
    assert judgement.answer is ParityAnswer.CANNOT_TELL
    assert judgement.sentence == "Parity cannot tell: it has no float64."


def test_parity_is_judged_in_the_precision_that_it_was_measured_in() -> None:
    """Whether that is the declared one is another question, with another answer."""
    other = record(errors(), ParityRecord("bf16", SHAPE[0], 0.1), precision="fp32")
    judgement = judge_replicate(1, other, SETTINGS)
    assert (judgement.answer, judgement.limit) == (ParityAnswer.PASS, SETTINGS.limit("bf16"))


def test_a_precision_without_a_limit_cannot_tell() -> None:
    judgement = judged("fp8")
    assert judgement.answer is ParityAnswer.CANNOT_TELL
    assert "there are limits for fp32, bf16 and fp16, not for fp8" in judgement.sentence


def test_one_replicate_that_fails_or_passes_speaks_for_the_arm() -> None:
    passed, close = judged(), judged(compiled=5 * EAGER)
    silent = judged(eager=np.full(SHAPE, 0.4))
    failed = judged(compiled=100 * EAGER)
    assert speaker([passed, close]) is close
    assert speaker([silent, passed, close]) is close
    assert speaker([passed, silent, failed]) is failed
    assert speaker([silent]) is silent


@pytest.mark.slow
@given(factor=factors)
def test_what_passes_errs_within_the_limit_everywhere(factor: np.ndarray) -> None:
    compiled = factor * EAGER
    within = (compiled / EXPLAINED <= 20.0).all()
    assert (judged(compiled=compiled).answer is ParityAnswer.PASS) == within


@pytest.mark.slow
@given(factor=factors, place=places, worse=st.floats(1.0, 1e9))
def test_a_larger_error_never_turns_a_fail_into_anything_else(
    factor: np.ndarray, place: tuple[int, int], worse: float
) -> None:
    compiled = factor * EAGER
    larger = changed_at(compiled, place, worse * compiled[place])
    if judged(compiled=compiled).answer is ParityAnswer.FAIL:
        assert judged(compiled=larger).answer is ParityAnswer.FAIL


@pytest.mark.slow
@given(factor=factors, place=places, worse=st.floats(1.0, 1e9))
def test_a_larger_error_never_makes_a_pass(
    factor: np.ndarray, place: tuple[int, int], worse: float
) -> None:
    compiled = factor * EAGER
    larger = changed_at(compiled, place, worse * compiled[place])
    if judged(compiled=larger).answer is ParityAnswer.PASS:
        assert judged(compiled=compiled).answer is ParityAnswer.PASS


@given(factor=factors, order=st.permutations(range(SHAPE[1])))
def test_the_order_of_the_tensors_changes_nothing(factor: np.ndarray, order: list[int]) -> None:
    found = errors(compiled=factor * EAGER)
    shuffled = ParityErrors(
        found.tensors[order],
        found.eager[:, order],
        found.repeated[:, order],
        found.compiled[:, order],
    )
    first = judge_replicate(1, record(found), SETTINGS)
    second = judge_replicate(1, record(shuffled), SETTINGS)
    assert (first.answer, first.median_ratio) == (second.answer, second.median_ratio)


@given(
    column=st.sampled_from(["eager", "repeated", "compiled"]),
    place=places,
    value=st.sampled_from([np.nan, np.inf, 1e300]),
)
def test_no_number_that_is_not_one_ever_passes(
    column: str, place: tuple[int, int], value: float
) -> None:
    whole = errors()
    damaged = {column: changed_at(getattr(whole, column), place, value)}
    judgement = judged(**damaged)
    if column == "eager" and value == 1e300:  # no more than one tensor too coarse to be judged
        assert judgement.judged == SHAPE[1] - 1
    else:
        assert judgement.answer is not ParityAnswer.PASS
