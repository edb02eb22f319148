"""What the columns of a table are taken for, and how its rows are divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.init.columns import Documents, Table, column_of, roles
from compilegate.init.errors import InitError
from compilegate.init.splitting import split_rows

SENTENCES = [f"a sentence of some words number {number}" for number in range(100)]
CLASSES = ["good", "bad"] * 50
NUMBERS = [f"{number / 7:.3f}" for number in range(100)]


def found(columns: Mapping[str, Sequence[object]], **said: str | None) -> Documents | Table:
    described = [column_of(name, cells) for name, cells in columns.items()]
    return roles(described, **said)


def test_texts_and_classes_are_told_by_what_they_hold() -> None:
    expected = Documents(text="what", label="verdict", identifier=None)
    assert found({"verdict": CLASSES, "n": NUMBERS, "what": SENTENCES}) == expected


def test_a_name_decides_between_several() -> None:
    longer = [f"{each} and then some more" for each in SENTENCES]
    made = found(
        {"note": longer, "text": SENTENCES, "language": CLASSES, "label": CLASSES, "id": range(100)}
    )
    assert made == Documents(text="text", label="label", identifier="id")


def test_ratings_are_classes_and_prices_are_numbers() -> None:
    stars = [str(number % 5) for number in range(100)]
    table = found({"n": NUMBERS, "kind": CLASSES, "name": [], "stars": stars})
    assert table == Table(
        target="stars", task="classes", numbers=("n",), categories=("kind",), left_out=("name",)
    )
    assert found({"n": range(100), "price": NUMBERS}) == Table(
        target="price", task="numbers", numbers=("n",), categories=(), left_out=()
    )


def test_the_command_line_has_the_last_word() -> None:
    made = found({"n": NUMBERS, "kind": CLASSES, "target": NUMBERS}, label="kind")
    assert isinstance(made, Table)
    assert (made.target, made.task) == ("kind", "classes")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"text": SENTENCES, "n": NUMBERS}, "--label: found no column that looks like classes"),
        ({"price": NUMBERS}, "--label: found nothing beside 'price' to predict it from"),
        ({"name": [f"n{number}" for number in range(100)]}, "--label: found no column of texts"),
    ],
)
def test_what_cannot_be_told_is_asked_for(
    columns: dict[str, Sequence[object]], sentence: str
) -> None:
    with pytest.raises(InitError) as caught:
        found(columns)
    assert str(caught.value).startswith(sentence)


ROWS = st.lists(
    st.fixed_dictionaries({"text": st.sampled_from("abcdefgh"), "label": st.sampled_from("xyz")}),
    max_size=60,
)


@pytest.mark.slow
@given(ROWS, st.randoms(use_true_random=False))
def test_rows_are_divided_by_what_they_hold(rows: list[dict[str, str]], chance: object) -> None:
    train, validation = split_rows(rows, same_by=("text",), spread_by="label")

    def counted(some: list[dict[str, str]]) -> list[str]:
        return sorted(map(str, some))

    assert counted(train + validation) == counted(rows)
    seen = {(row["text"], row["label"]) for row in train}
    assert not any((row["text"], row["label"]) in seen for row in validation)
    assert {row["label"] for row in validation} <= {row["label"] for row in train}
    shuffled = list(rows)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    again = split_rows(shuffled, same_by=("text",), spread_by="label")
    assert [counted(part) for part in again] == [counted(train), counted(validation)]
