"""Three of the hundred, the truth about a compiler, and the summary's counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.zoo.summary import COLUMNS, Summary, cells
from benchmarks.zoo.truth import judge

PROJECT = Path(__file__).parents[2]
EXACT = [{"loss 0": np.array(2.0), "gradient of 0.weight": np.ones(8)}] * 4
SOUND = [{name: each * (1 + 1e-6) for name, each in EXACT[0].items()}] * 4


def with_gradient(*factors: float) -> list[dict[str, Any]]:
    return [{**EXACT[0], "gradient of 0.weight": np.ones(8) * each} for each in factors]


@pytest.mark.parametrize(
    ("compiled", "answer"),
    [
        (SOUND, "sound"),
        (with_gradient(1 + 1e-4, 1, 1, 1), "sound"),  # once, as at a kink
        (with_gradient(*[1 + 1.5e-5] * 4), "unclear"),
        (with_gradient(*[1 + 1e-4] * 4), "wrong"),
        (with_gradient(0, 0, 0, 0), "wrong"),
        (with_gradient(*[float("nan")] * 4), "wrong"),
        ([{"loss 0": each["loss 0"]} for each in EXACT], "wrong"),
    ],
)
def test_the_truth_is_what_exceeds_eagers_own_rounding(compiled: Any, answer: str) -> None:
    assert judge(EXACT, [SOUND, EXACT], compiled, "fp32").answer == answer


def row(answer: str, true: str, *planted: str, printed: str | None = None) -> dict[str, Any]:
    errors = [{"kind": "lost_gradient", "answer": each} for each in planted]
    probe = {"answer": answer, "printed": printed or answer, "why": "", "planted": errors}
    return {"name": f"{answer} {true}", "probe": probe, "truth": {"answer": true, "why": ""}}


FOUND = ("wrong",) * 3


@pytest.mark.parametrize(
    ("rows", "reached"),
    [
        ([row("alike", "sound", *FOUND)], True),
        ([row("wrong", "wrong", *FOUND)], True),
        ([row("alike", "sound", *FOUND)] * 9 + [row("died", "torch refuses")], True),
        ([row("alike", "sound", *FOUND)] * 9 + [row("died", "left to eager mode")], False),
        ([row("cannot tell", "sound", "wrong", "wrong", "cannot tell")], True),
        ([row("cannot tell", "sound", *FOUND)] * 9, False),
        ([row("wrong", "sound", *FOUND)], False),
        ([row("alike", "wrong", *FOUND)], False),
        ([row("alike", "sound", "wrong", "wrong", "alike")], False),
        ([row("alike", "sound", "wrong", "wrong")], False),
        ([row("died", "sound", *FOUND)], False),
        ([row("cannot tell", "sound", *FOUND, printed="alike")], False),
    ],
)
def test_the_aim_is_no_false_alarm_and_nothing_missed(rows: Any, reached: bool) -> None:
    assert Summary(rows).reaches_the_aim(len(rows)) is reached
    assert not Summary(rows).reaches_the_aim(len(rows) + 1)


def test_a_row_of_the_table_counts_the_planted_errors_that_are_found() -> None:
    found = cells(row("cannot tell", "sound", "wrong", "wrong", "alike"))
    assert len(found) == len(COLUMNS)
    assert found[:4] == ["cannot tell sound", "cannot tell", "sound", "2 of 3"]


@pytest.mark.slow
def test_the_probe_is_right_on_three_of_the_hundred_and_rows_are_stored(
    tmp_path: Path,
) -> None:
    only = ["--only", "^(Triplets|DCGAN|Llama)$", "--backend", "aot_eager"]
    command = [sys.executable, "-m", "benchmarks.zoo", *only, "--rows", str(tmp_path)]
    subprocess.run(command, cwd=PROJECT, check=True)
    paths = sorted(tmp_path.glob("*/fp32/aot_eager/*.json"))
    assert len(paths) == 3
    for path in paths:
        found = json.loads(path.read_text())
        assert found["truth"]["answer"] == "sound"
        assert found["probe"]["answer"] == found["probe"]["printed"] == "alike"
        assert [each["answer"] for each in found["probe"]["planted"]] == ["wrong"] * 3

    written = [path.stat().st_mtime_ns for path in paths]
    subprocess.run(command, cwd=PROJECT, check=True)
    assert [path.stat().st_mtime_ns for path in paths] == written
