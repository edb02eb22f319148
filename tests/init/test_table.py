"""What the columns of a table are taken for, and how its rows are divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.init.table import InitError, Roles, UnclearLabelError, column_of, roles, split_rows

SENTENCES = [f"a sentence of some words number {number}" for number in range(100)]
CLASSES = ["good", "bad"] * 50
NUMBERS = [f"{number / 7:.3f}" for number in range(100)]
NAMES = [f"Braund, Mr. Owen {number}" for number in range(100)]
STARS = [str(number % 5) for number in range(100)]


def found(columns: Mapping[str, Sequence[object]], subject: str = "", **said: str | None) -> Roles:
    described = [column_of(name, cells) for name, cells in columns.items()]
    return roles(described, subject, **said)


def test_texts_and_classes_are_told_by_what_they_hold() -> None:
    assert found({"verdict": CLASSES, "n": NUMBERS, "what": SENTENCES}) == Roles(
        text="what", label="verdict"
    )


def test_a_name_decides_between_several() -> None:
    longer = [f"{each} and then some more" for each in SENTENCES]
    made = found(
        {"note": longer, "text": SENTENCES, "language": CLASSES, "label": CLASSES, "id": range(100)}
    )
    assert made == Roles(text="text", label="label", identifier="id")


def test_ratings_are_classes_and_prices_are_numbers() -> None:
    table = found({"n": NUMBERS, "kind": CLASSES, "name": [], "stars": STARS})
    assert table == Roles(
        label="stars", numbers=("n",), categories=("kind",), dates={}, left_out=("name",)
    )
    assert found({"PersonId": range(100), "price": NUMBERS, "n": STARS}) == Roles(
        label="price", task="numbers", numbers=("n",), dates={}, left_out=("PersonId",)
    )


@pytest.mark.parametrize(
    ("subject", "names", "label"),
    [
        ("titanic", ["PassengerId", "Survived", "Pclass", "Embarked"], "Survived"),
        ("attrition", ["Attrition", "Age", "YearsWithCurrManager"], "Attrition"),
        ("mpg", ["mpg", "cylinders", "origin"], "mpg"),
        ("cars", ["price_eur", "km", "type"], "price_eur"),
        ("house-prices", ["LotArea", "SalePrice"], "SalePrice"),
        ("anything", ["outcome", "price", "type"], "outcome"),
        ("wine", ["alcohol", "target"], "target"),
        ("trees", ["girth", "height", "volume"], None),
        ("goods", ["new_price", "old_price"], None),
    ],
)
def test_a_label_is_found_as_a_person_would(
    subject: str, names: list[str], label: str | None
) -> None:
    table = dict.fromkeys(names, STARS) | {"Name": NAMES}
    if label is not None:
        assert found(table, subject).label == label
        return
    with pytest.raises(UnclearLabelError) as caught:
        found(table, subject)
    assert caught.value.candidates == names
    assert "no column that is plainly the label, allowed: " in str(caught.value)


def test_dates_gaps_and_counted_rows_are_recognised() -> None:
    days = [f"{1 + number % 28}.{1 + number % 12}.2020" for number in range(100)]
    with_gaps = ["NA" if number % 9 == 0 else str(number / 3) for number in range(100)]
    table = {
        "no": [str(1 + n) for n in range(100)], "day": days, "x": with_gaps, "always": ["1"] * 100,
        "y": CLASSES,
    }  # fmt: skip
    assert found(table) == Roles(
        label="y", numbers=("x",), dates={"day": "%d.%m.%Y"}, left_out=("no", "always")
    )
    assert column_of("when", ["2020-01-02", "", "2021-05-06 07:08:09"]).date == "iso"


def test_the_command_line_has_the_last_word() -> None:
    made = found({"n": NUMBERS, "kind": CLASSES, "target": NUMBERS}, label="kind")
    assert (made.label, made.task) == ("kind", "classes")
    assert found({"note": SENTENCES, "n": NUMBERS, "m": STARS}, label="n").text is None


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
