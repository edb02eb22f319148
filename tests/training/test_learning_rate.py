"""The learning rate schedule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from training.hyperparameters import Hyperparameters
from training.schedule import rate_factor, run_length, warmup_steps

RUNS = st.integers(min_value=1, max_value=500).flatmap(
    lambda steps: st.tuples(st.just(steps), st.floats(min_value=0, max_value=0.999))
)


def test_the_rate_rises_to_its_peak_and_falls_towards_zero() -> None:
    factors = [rate_factor(step, steps=10, warmup=2) for step in range(10)]
    assert factors == [1 / 3, 2 / 3, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]


@given(run=RUNS)
def test_every_step_has_a_rate_above_zero_and_one_step_has_the_peak(run: tuple[int, float]) -> None:
    steps, fraction = run
    warmup = warmup_steps(steps, fraction)
    factors = [rate_factor(step, steps, warmup) for step in range(steps)]
    assert min(factors) > 0
    assert max(factors) == 1
    assert factors.index(1) == warmup


@given(run=RUNS)
def test_the_rate_rises_before_the_peak_and_falls_after_it(run: tuple[int, float]) -> None:
    steps, fraction = run
    warmup = warmup_steps(steps, fraction)
    factors = [rate_factor(step, steps, warmup) for step in range(steps)]
    assert factors[: warmup + 1] == sorted(factors[: warmup + 1])
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)


@given(
    documents=st.integers(200, 10_000),
    batch_size=st.integers(1, 50),
    factor=st.integers(1, 4),
    epochs=st.integers(1, 20),
    fraction=st.floats(0, 0.5),
)
def test_a_scaled_batch_warms_up_over_as_many_examples_in_fewer_steps(
    documents: int, batch_size: int, factor: int, epochs: int, fraction: float
) -> None:
    def warmed_up(size: int, world_size: int = 1) -> int:
        recipe = Hyperparameters(batch_size=size, epochs=epochs, warmup_fraction=fraction)
        return run_length(recipe, documents, world_size).warmup * size * world_size

    larger = factor * batch_size
    assert warmed_up(batch_size, world_size=factor) == warmed_up(larger)
    # Each number of steps is rounded, and each epoch drops what does not fill a step.
    most = larger * (1 + fraction * epochs)
    assert abs(warmed_up(batch_size) - warmed_up(larger)) <= most
