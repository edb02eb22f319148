"""Every refusal of a workload's file: refusals.toml has a wrong file each, and what is said of it.

`UPDATE_GOLDEN=1` writes the sentences anew.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from compilegate.declaration_errors import validate
from compilegate.workload import WorkloadError, WorkloadFile, settle

HERE = Path(__file__).parent
REFUSALS = HERE / "refusals.toml"
BASES = {"topics": HERE.parent / "pipelines" / "topics.toml"}
CASES = tomllib.loads(REFUSALS.read_text(encoding="utf-8"))["refusal"]
ABSENT = "(absent)"
"""As a value: the file does not have the key."""


def changed(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    found = dict(table)
    for key, value in changes.items():
        below = found.get(key)
        merged = isinstance(value, dict) and isinstance(below, dict)
        found[key] = changed(below, value) if merged else value
    return {key: value for key, value in found.items() if value != ABSENT}


def refused(case: dict[str, Any]) -> list[str]:
    of = case.get("of", "topics")
    path = BASES.get(of, HERE / f"{of}.toml")
    raw = changed(tomllib.loads(path.read_text(encoding="utf-8")), case["change"])
    with pytest.raises(WorkloadError) as caught:
        settle(validate("FILE", raw, WorkloadFile, WorkloadError))
    return [problem.removeprefix("FILE: ") for problem in caught.value.problems]


@pytest.mark.skipif("UPDATE_GOLDEN" in os.environ, reason="the sentences are written anew")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["says"][:60])
def test_what_is_wrong_is_one_sentence_with_key_finding_and_what_is_expected(
    case: dict[str, Any],
) -> None:
    assert refused(case) == [case["says"]]


def test_the_sentences_are_written_anew() -> None:
    text = REFUSALS.read_text(encoding="utf-8")
    parts = re.split(r"^says = .*\n", text, flags=re.MULTILINE)
    says = ["\n".join(refused(case)) for case in CASES]
    anew = "".join(
        part + f"says = '''{sentence}'''\n" for part, sentence in zip(parts, says, strict=False)
    )
    if "UPDATE_GOLDEN" in os.environ:
        REFUSALS.write_text(anew + parts[-1], encoding="utf-8")
    assert len(parts) == len(CASES) + 1
