"""What the columns of a table are taken for, and how its rows are divided."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.init.table import (
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
DATES = [f"{1 + n % 28}.{1 + n % 12}.2020" for n in range(100)]
GAPS = ["" if n % 9 == 0 else str(n / 3) for n in range(100)]
CITIES = [f"city {n % 50}" for n in range(100)]


def found(columns: Mapping[str, Sequence[str]], subject: str = "", **given: str) -> Roles:
    described = {name: column_of(name, cells) for name, cells in columns.items()}
    return roles_of(described, subject, **given)


@pytest.mark.parametrize(
    ("columns", "given", "roles"),
    [
        (
            {"verdict": CLASSES, "n": NUMBERS, "what": SENTENCES},
            {},
            Roles(text="what", label="verdict"),
        ),
        (
            {"note": [f"{each} and more" for each in SENTENCES], "text": SENTENCES,
             "language": CLASSES, "label": CLASSES, "id": COUNTED},
            {},
            Roles(text="text", label="label", identifier="id"),
        ),
        (
            {"n": NUMBERS, "kind": CLASSES, "name": [], "stars": STARS},
            {},
            Roles(label="stars", numbers=("n",), categories=("kind",), left_out=("name",)),
        ),
        (
            {"PersonId": COUNTED, "price": NUMBERS, "n": STARS, "about": SENTENCES},
            {},
            Roles(label="price", task="numbers", numbers=("n",), left_out=("PersonId", "about")),
        ),
        (
            {"no": [str(1 + n) for n in range(100)], "day": DATES, "x": GAPS,
             "always": ["1"] * 100, "city": CITIES, "name": NAMES, "y": CLASSES},
            {},
            Roles(label="y", numbers=("x",), dates=("day",), categories=("city",),
                  left_out=("no", "always", "name")),
        ),
        (
            {"n": NUMBERS, "kind": CLASSES, "target": NUMBERS},
            {"label": "kind"},
            Roles(label="kind", numbers=("n", "target")),
        ),
        (
            {"note": SENTENCES, "n": NUMBERS, "m": STARS},
            {"label": "n"},
            Roles(label="n", task="numbers", numbers=("m",), left_out=("note",)),
        ),
    ],
)  # fmt: skip
def test_each_column_gets_its_role(
    columns: Mapping[str, Sequence[str]], given: dict[str, str], roles: Roles
) -> None:
    assert found(columns, **given) == roles


@pytest.mark.parametrize(
    ("subject", "names", "label"),
    [
        ("titanic", ["PassengerId", "Survived", "Pclass", "Embarked"], "Survived"),
        ("attrition", ["Attrition", "Age", "YearsWithCurrManager"], "Attrition"),
        ("churn", ["age", "city", "churned", "income"], "churned"),
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
        (["1", "2.5", ""], "quantity", ["1", "2.5", ""]),
        (["1", "2", ""], "count", ["1", "2", ""]),
        (["1,234.50", "$12", ""], "quantity", ["1234.50", "12", ""]),
        (["1.234,5", "€ 12", "3,25"], "quantity", ["1234.5", "12", "3.25"]),
        (["45%", "7 %"], "count", ["45", "7"]),
        (["31.1.2020", "1.2.2020"], "date", ["2020-01-31", "2020-02-01"]),
        (["1/31/2020 8:30"], "date", ["2020-01-31T08:30:00"]),
        (["2020-01-02", "", "2021-05-06 07:08"], "date", ["2020-01-02", "", "2021-05-06T07:08:00"]),
        (["Jan 5, 2020"], "date", ["2020-01-05"]),
        (["1", "2.5", "many"], "text", ["1", "2.5", "many"]),
        (["many", "few", "many", "few"], "category", ["many", "few", "many", "few"]),
    ],
)
def test_numbers_and_dates_are_written_as_programs_read_them(
    cells: list[str], kind: str, written: list[str]
) -> None:
    made = column_of("x", cells)
    assert (made.kind, made.cells) == (kind, written)


@pytest.mark.parametrize(
    ("columns", "given", "named"),
    [
        ({"text": SENTENCES, "n": NUMBERS}, {}, "'n'"),  # no classes beside the texts
        ({"price": NUMBERS}, {}, "'price'"),  # nothing to predict it from
        ({"name": [f"n{number}" for number in range(100)]}, {}, "'name'"),
        ({"n": NUMBERS, "price": [*NUMBERS * 3, "unknown"]}, {}, "'unknown'"),
        ({"n": NUMBERS, "y": ["2020-01-02", "2020-01-03"] * 50}, {}, "'2020-01-02'"),
        ({"a": STARS, "b": STARS}, {"label": "c"}, "'a', 'b'"),
    ],
)
def test_what_cannot_be_learned_is_refused_by_name(
    columns: dict[str, Sequence[str]], given: dict[str, Any], named: str
) -> None:
    with pytest.raises(InitError, match=rf"^--label is .*{named}"):
        found(columns, **given)


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


# A byte-order mark, tabs, lines of Windows, a quoted line break, columns without a name.
SPREADSHEET = "\ufeffx\tnote\tlabel\t\t\r\n" + '1,5\t"one,\ntwo"\tyes\t\t\r\n' * 60


@pytest.mark.parametrize(
    ("content", "cells", "notes"),
    [
        (SPREADSHEET.encode(), {"x": "1.5", "note": "one,\ntwo", "label": "yes"}, ["'\\t'"]),
        (("a;b\n" + "1,234;Köln\n" * 60).encode("cp1252"), {"a": "1.234", "b": "Köln"}, ["1252"]),
        (("a,b\n" + "1,x\n" * 60 + "1,2,3\n").encode(), {"a": "1", "b": "x"}, ["line 62"]),
    ],
)
def test_what_spreadsheets_write_is_read(
    tmp_path: Path, content: bytes, cells: dict[str, str], notes: list[str]
) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(content)
    table = read_table(path)
    assert {name: set(each.cells) for name, each in table.columns.items()} == {
        name: {cell} for name, cell in cells.items()
    }
    assert [note for note, part in zip(table.notes, notes, strict=True) if part not in note] == []


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
