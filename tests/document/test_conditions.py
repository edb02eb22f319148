"""The condition types mean what their names say, and never compare what is not comparable."""

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.document.conditions import condition_faults, evaluate, evaluate_all
from compilegate.document.expressions import ExpressionError

numbers = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=8)
same_kind = st.tuples(numbers, numbers) | st.tuples(texts, texts)
COMPARISONS = {
    "Equals": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqualTo": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqualTo": operator.le,
}


def compare(kind: str, left: Any, right: Any) -> dict[str, Any]:
    return {"Type": kind, "LeftValue": left, "RightValue": right}


@pytest.mark.parametrize("kind", COMPARISONS)
@given(pair=same_kind)
def test_comparisons_are_those_of_python(kind: str, pair: tuple[Any, Any]) -> None:
    condition = compare(kind, *pair)
    assert evaluate(condition) is COMPARISONS[kind](*pair)
    assert evaluate({"Type": "Not", "Condition": condition}) is not evaluate(condition)


@pytest.mark.parametrize(
    "pair",
    [(1, "1"), (True, 1), ("a", False), (float("nan"), 1.0), (None, None), ([], {})],
    ids=str,
)
def test_what_cannot_be_compared_is_an_error_not_false(pair: tuple[Any, Any]) -> None:
    for kind in COMPARISONS:
        with pytest.raises(ExpressionError, match="cannot be compared"):
            evaluate(compare(kind, *pair))


def test_booleans_have_no_order_and_in_compares_with_all_even_after_a_match() -> None:
    assert evaluate(compare("Equals", True, True))
    assert evaluate({"Type": "In", "QueryValue": "a", "Values": ["b", "a"]})
    assert not evaluate({"Type": "In", "QueryValue": "a", "Values": ["b"]})
    with pytest.raises(ExpressionError, match="does not order booleans"):
        evaluate(compare("LessThan", True, False))
    with pytest.raises(ExpressionError, match="cannot be compared"):
        evaluate({"Type": "In", "QueryValue": "a", "Values": ["a", 1]})


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_or_holds_when_any_does_a_list_when_all_do_and_an_error_ends_both(
    truths: list[bool],
) -> None:
    conditions = [compare("Equals", truth, True) for truth in truths]
    assert evaluate({"Type": "Or", "Conditions": conditions}) is any(truths)
    assert evaluate_all(conditions) is all(truths)
    for wrong in ([*conditions, compare("Equals", 1, "1")], [compare("In", 1, 1), *conditions]):
        for decide in (evaluate_all, lambda it: evaluate({"Type": "Or", "Conditions": it})):
            with pytest.raises(ExpressionError):
                decide(wrong)


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        ({"Type": "Like", "LeftValue": 1, "RightValue": 1}, "condition type 'Like' is unknown"),
        ({"Type": "Equals", "LeftValue": 1}, "needs RightValue"),
        ({"Type": "In", "QueryValue": 1, "Values": []}, "must be a non-empty list"),
        ({"Type": "Not", "Condition": {"Type": "Or", "Conditions": 3}}, "Conditions of a"),
        ("yes", "condition type None is unknown"),
    ],
)
def test_a_malformed_condition_is_named(condition: Any, fault: str) -> None:
    assert fault in condition_faults(condition)[0]
    with pytest.raises(ExpressionError):
        evaluate(condition)
