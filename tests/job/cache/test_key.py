"""The compile cache's key: the same for the same things, another for anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.job.cache import CacheKey

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PARTS = st.dictionaries(st.text(min_size=1, max_size=8), SCALARS, max_size=5)
KEYS = st.builds(CacheKey, graph=PARTS, libraries=PARTS, hardware=PARTS)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
KEY = CacheKey(
    graph={"model": "bert", "batch_size": 32},
    libraries={"torch": "2.13.0", "triton": None},
    hardware={"cpu": "a processor", "threads": 1},
)


@pytest.mark.slow
@given(key=KEYS, order=st.randoms(use_true_random=False))
def test_the_order_of_names_does_not_matter(key: CacheKey, order: Any) -> None:
    def shuffled(part: Any) -> dict[str, Any]:
        items = list(part.items())
        order.shuffle(items)
        return dict(items)

    other = CacheKey(*(shuffled(part) for part in key.parts().values()))
    assert other.digest == key.digest
    assert other.archive_name == key.archive_name


@pytest.mark.slow
@given(key=KEYS)
def test_a_key_that_was_written_and_read_again_is_the_same(key: CacheKey) -> None:
    read = json.loads(json.dumps(key.parts()))
    assert key.differences(read) == []
    assert CacheKey(**read).digest == key.digest


@pytest.mark.parametrize("other", [True, 1.0])
def test_one_is_not_true_and_not_a_float(other: Any) -> None:
    key, found = (CacheKey({"batch": each}, {}, {}) for each in (1, other))
    assert key.digest != found.digest
    assert len(key.differences(found.parts())) == 1


@pytest.mark.slow
@given(key=KEYS, part=st.sampled_from(["graph", "libraries", "hardware"]), changed=PARTS)
def test_a_difference_is_told_exactly_where_the_digests_differ(
    key: CacheKey, part: str, changed: dict[str, Any]
) -> None:
    other = CacheKey(**{**key.parts(), part: changed})
    assert bool(key.differences(other.parts())) == (key.digest != other.digest)


@pytest.mark.slow
@given(found=JSON)
def test_whatever_an_archive_says_its_key_is_comparing_gives_sentences(found: Any) -> None:
    differences = KEY.differences(found)
    assert differences
    assert all(each.isprintable() for each in differences)


def test_the_difference_is_told_with_both_values() -> None:
    found = KEY.parts()
    found["libraries"] = {"torch": "2.12.0", "triton": None}
    assert KEY.differences(found) == ["torch was 2.12.0 and is 2.13.0"]


def test_of_many_differences_the_first_three_are_told() -> None:
    found: Any = {"graph": {"a": 1, "b": "x" * 100}, "libraries": {}, "hardware": KEY.hardware}
    assert KEY.differences(found) == [
        "model was absent and is bert",
        "batch_size was absent and is 32",
        "a was 1 and is absent",
        "3 more",
    ]


@pytest.mark.parametrize("part", ["graph", "libraries", "hardware"])
def test_machines_of_another_kind_have_archives_of_their_own(part: str) -> None:
    other = CacheKey(**{**KEY.parts(), part: {"changed": True}})
    assert other.digest != KEY.digest
    assert (other.archive_name != KEY.archive_name) == (part == "hardware")
