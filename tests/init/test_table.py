"""What the columns of a table are taken for, and how its rows are divided."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.init.table import (
    Column,
    InitError,
    Roles,
    UnclearLabelError,
    column_of,
    held_back_rows,
    read_table,
    roles_of,
)

SENTENCES = [f"a sentence of some words number {number}" for number in range(100)]
CLASSES = ["good", "bad"] * 50
NUMBERS = [f"{number / 7:.3f}" for number in range(100)]
NAMES = [f"Braund, Mr. Owen {number}" for number in range(100)]
STARS = [str(number % 5) for number in range(100)]
COUNTED = list(map(str, range(100)))


def found(columns: Mapping[str, Sequence[str]], subject: str = "", **given: str | None) -> Roles:
    described = {name: column_of(name, cells) for name, cells in columns.items()}
    return roles_of(described, subject, **given)


def test_texts_and_classes_are_known_by_what_they_hold_and_then_by_name() -> None:
    table = {"verdict": CLASSES, "n": NUMBERS, "what": SENTENCES}
    assert found(table) == Roles(text="what", label="verdict")
    longer = [f"{each} and then some more" for each in SENTENCES]
    table = {
        "note": longer,
        "text": SENTENCES,
        "language": CLASSES,
        "label": CLASSES,
        "id": COUNTED,
    }
    assert found(table) == Roles(text="text", label="label", identifier="id")


def test_ratings_are_classes_and_prices_are_numbers_even_beside_a_description() -> None:
    table = found({"n": NUMBERS, "kind": CLASSES, "name": [], "stars": STARS})
    assert table == Roles(label="stars", numbers=("n",), categories=("kind",), left_out=("name",))
    assert found({"PersonId": COUNTED, "price": NUMBERS, "n": STARS, "about": SENTENCES}) == Roles(
        label="price", task="numbers", numbers=("n",), left_out=("PersonId", "about")
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


@pytest.mark.parametrize(
    ("cells", "kind", "written"),
    [
        (["1", "2.5", ""], "number", ["1", "2.5", ""]),
        (["1,234.50", "$12", ""], "number", ["1234.50", "12", ""]),
        (["1.234,5", "€ 12", "3,25"], "number", ["1234.5", "12", "3.25"]),
        (["45%", "7 %"], "number", ["45", "7"]),
        (["31.1.2020", "1.2.2020"], "date", ["2020-01-31", "2020-02-01"]),
        (["1/31/2020 8:30"], "date", ["2020-01-31T08:30:00"]),
        (["2020-01-02", "", "2021-05-06 07:08"], "date", ["2020-01-02", "", "2021-05-06T07:08:00"]),
        (["Jan 5, 2020"], "date", ["2020-01-05"]),
        (["1", "2.5", "many"], "word", ["1", "2.5", "many"]),
    ],
)
def test_numbers_and_dates_are_written_as_programs_read_them(
    cells: list[str], kind: str, written: list[str]
) -> None:
    made = column_of("x", cells)
    assert (made.kind, made.cells) == (kind, written)


def test_a_comma_in_a_file_of_semicolons_is_a_decimal_mark() -> None:
    assert column_of("x", ["1,234"], continental=True).cells == ["1.234"]
    assert column_of("x", ["1,234"]).cells == ["1234"]


def test_dates_gaps_counted_rows_and_categories_of_many_values_are_recognised() -> None:
    table = {
        "no": [str(1 + n) for n in range(100)],
        "day": [f"{1 + n % 28}.{1 + n % 12}.2020" for n in range(100)],
        "x": ["" if n % 9 == 0 else str(n / 3) for n in range(100)],
        "always": ["1"] * 100,
        "city": [f"city {n % 50}" for n in range(100)],
        "name": NAMES,
        "y": CLASSES,
    }
    assert found(table) == Roles(
        label="y", numbers=("x",), dates=("day",), categories=("city",),
        left_out=("no", "always", "name"),
    )  # fmt: skip


def test_the_command_line_has_the_last_word() -> None:
    made = found({"n": NUMBERS, "kind": CLASSES, "target": NUMBERS}, label="kind")
    assert (made.label, made.task) == ("kind", "classes")
    assert found({"note": SENTENCES, "n": NUMBERS, "m": STARS}, label="n").text is None


@pytest.mark.parametrize(
    ("columns", "label", "named"),
    [
        ({"text": SENTENCES, "n": NUMBERS}, None, "'n'"),  # no classes beside the texts
        ({"price": NUMBERS}, None, "'price'"),  # nothing to predict it from
        ({"name": [f"n{number}" for number in range(100)]}, None, "'name'"),
        ({"n": NUMBERS, "price": [*NUMBERS * 3, "unknown"]}, None, "'unknown'"),
        ({"n": NUMBERS, "y": ["2020-01-02", "2020-01-03"] * 50}, None, "'2020-01-02'"),
        ({"a": STARS, "b": STARS}, "c", "'a', 'b'"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_name(
    columns: dict[str, Sequence[str]], label: str | None, named: str
) -> None:
    with pytest.raises(InitError) as caught:
        found(columns, label=label)
    assert str(caught.value).startswith("--label is ")
    assert named in str(caught.value)


HEADED = "a,b,label\n"
ROWS_OF_TWO = "".join(f"{number / 7},red,{number % 2}\n" for number in range(60))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "line 1"),
        (HEADED.encode(), "0 rows"),
        ((HEADED + "1,2,3\n" * 9).encode(), "9 rows"),
        ((HEADED + '1,"2\n').encode(), "line 2"),
        ((HEADED + "1,2\n" * 60).encode(), "line 6"),
        (("a,a,label\n" + ROWS_OF_TWO).encode(), "column 2"),
        (("0.5,1.5,setosa\n" + ROWS_OF_TWO).encode(), "line 1"),
        ((HEADED + ROWS_OF_TWO).encode("utf-16"), "NUL"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(
    tmp_path: Path, content: bytes, named: str
) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    with pytest.raises(InitError) as caught:
        read_table(path)
    assert named in caught.value.problems[-1]


def test_what_spreadsheets_write_is_read(tmp_path: Path) -> None:
    """A byte-order mark, tabs, lines of Windows, a quoted line break, columns without a name."""
    path = tmp_path / "mine.tsv"
    rows = "".join(f'{n},5\t"one,\ntwo"\tyes\t\t\r\n' for n in range(60))
    path.write_text(f"\ufeffx\tnote\tlabel\t\t\r\n{rows}", encoding="utf-8", newline="")
    table = read_table(path)
    assert list(table.columns) == ["x", "note", "label"]
    assert table.columns["x"] == Column("x", [f"{n}.5" for n in range(60)], "number")
    assert set(table.columns["note"].cells) == {"one,\ntwo"}
    assert len(table.notes) == 2


def test_lines_that_are_no_rows_are_left_out_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(HEADED + ROWS_OF_TWO + "1,2,3,4\n")
    table = read_table(path)
    assert len(table.columns["a"].cells) == 60
    assert "line 62" in table.notes[0]


ROWS = st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("abcdefgh")), max_size=60)


@pytest.mark.slow
@given(ROWS, st.integers())
def test_rows_are_divided_by_what_they_hold(rows: list[tuple[str, str]], seed: int) -> None:
    def held_back(of: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return sorted(of[number] for number in held_back_rows(dict(enumerate(of))))

    chosen = held_back(rows)
    kept = [row for row in rows if row not in chosen]
    assert len(kept) + len(chosen) == len(rows)  # equal rows are on one side
    assert {kind for kind, _ in chosen} <= {kind for kind, _ in kept}
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert held_back(shuffled) == chosen
