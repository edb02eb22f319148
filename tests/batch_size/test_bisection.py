"""The search for the largest batch that fits, over made-up limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from compilegate.batch_size.bisection import Bracket, advised, largest_fitting

sizes = st.integers(1, 100_000)


class Memory:
    """Batches up to a limit fit; it remembers what it was asked."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.asked: list[int] = []

    def fits(self, batch_size: int) -> bool:
        self.asked.append(batch_size)
        return batch_size <= self.limit


@given(limit=st.integers(0, 200_000), first=sizes, most=sizes)
def test_without_tolerance_it_finds_the_limit_itself(limit: int, first: int, most: int) -> None:
    memory = Memory(limit)
    first = min(first, most)
    found = largest_fitting(memory.fits, first=first, most=most, tolerance=0)
    assert found.fitting == min(limit, most)
    assert found.too_large == (None if limit >= most else limit + 1)


@given(limit=sizes, first=sizes, most=sizes, tolerance=st.floats(0, 0.5))
def test_it_asks_seldom_never_twice_and_never_beyond_what_is_allowed(
    limit: int, first: int, most: int, tolerance: float
) -> None:
    memory = Memory(limit)
    found = largest_fitting(memory.fits, first=min(first, most), most=most, tolerance=tolerance)
    assert len(memory.asked) == len(set(memory.asked)) <= 2 * most.bit_length() + 1
    assert all(1 <= each <= most for each in memory.asked)
    assert found.fitting in memory.asked
    if found.too_large is not None:
        assert found.fitting <= limit < found.too_large
        assert found.too_large - found.fitting <= max(1, tolerance * found.fitting)


@given(fitting=sizes)
def test_advice_fits_and_leaves_room(fitting: int) -> None:
    assert 1 <= advised(fitting) <= fitting
    assert fitting < 10 or advised(fitting) <= 0.9 * fitting
    assert advised(fitting) < 8 or advised(fitting) % 8 == 0


def test_nothing_fits_where_one_does_not() -> None:
    found = largest_fitting(Memory(0).fits, first=6, most=64, tolerance=0.1)
    assert found == Bracket(fitting=0, too_large=1)


def test_it_stops_where_the_rest_is_within_the_tolerance() -> None:
    memory = Memory(1000)
    found = largest_fitting(memory.fits, first=512, most=4096, tolerance=0.1)
    assert found == Bracket(fitting=960, too_large=1024)
    assert memory.asked == [512, 1024, 768, 896, 960]
