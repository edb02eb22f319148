"""Definitions that no job could be made of are refused by a sentence, before anything starts."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from compilegate.cli.main import main
from compilegate.cli.terminal.errors import disk_error
from compilegate.document.reading import read_definition


def started(bench: Any, tmp_path: Path, *steps: dict[str, Any]) -> Any:
    file = tmp_path / "x.json"
    file.write_text(bench.definition(*steps))
    options = [str(file), "--image", "*=here", "--home", str(bench.home)]
    return CliRunner().invoke(main, ["pipeline", "run", *options])


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"Environment": {"A=B": "x"}}, "names the variable 'A=B'"),
        ({"Environment": {"": "x"}}, "names the variable ''"),
        ({"Environment": {"A": "x\0y"}}, "Environment.A is 'x\\x00y'"),
        ({"Environment": {"A": "\ud800"}}, "Environment.A is '\\ud800'"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": -5}}, "allowed: 1 to 2419200"),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 10**30}}, "allowed: 1 to 2419200"),
    ],
    ids=["equals", "empty", "nul", "surrogate", "negative", "huge"],
)
def test_what_no_process_could_be_given_is_refused(
    bench: Any, tmp_path: Path, members: dict[str, Any], told: str
) -> None:
    step = bench.processing("prepare")
    step["Arguments"].update(members)
    result = started(bench, tmp_path, step)
    assert result.exit_code == 2, result.output
    assert told in result.output
    assert not (bench.home / "executions").exists()


@pytest.mark.parametrize("uri", ["s3://b//o", "https://b/o"])
def test_an_output_that_cannot_be_written_is_refused_before_the_job(
    bench: Any, tmp_path: Path, uri: str
) -> None:
    step = bench.processing("prepare", outputs=["o"])
    step["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = uri
    result = started(bench, tmp_path, step)
    assert result.exit_code == 2, result.output
    assert f"prepare: its output: {uri!r}" in result.output


@pytest.mark.slow
def test_a_fail_step_without_a_gate_is_not_the_gates(bench: Any, tmp_path: Path) -> None:
    result = started(bench, tmp_path, bench.fail("stop", "enough"))
    assert result.exit_code == 9, result.output


@given(st.characters(categories=["Cs"]), st.booleans())
def test_half_characters_are_found_wherever_they_stand(half: str, as_name: bool) -> None:
    member = {half: 1} if as_name else {"a": [1, {"b": half}]}
    step = {"Name": "s", "Type": "Fail", "Arguments": member}
    definition = json.dumps({"Version": "2020-12-01", "Steps": [step]})
    _, faults = read_definition(definition)
    assert len(faults) == 1
    assert "Steps[0].Arguments" in faults[0]
    faults[0].encode()


@pytest.mark.parametrize(
    ("code", "status"), [(errno.ENOSPC, 3), (errno.EDQUOT, 3), (errno.EROFS, 2)]
)
def test_a_disk_that_cannot_be_written_is_told_in_a_sentence(code: int, status: int) -> None:
    shown = disk_error(OSError(code, os.strerror(code), "home/x"))
    assert shown is not None
    assert shown.exit_code == status
    assert "home/x" in str(shown)
    assert disk_error(OSError(errno.EIO, "odd")) is None


def test_a_request_that_is_an_expression_is_refused(bench: Any, tmp_path: Path) -> None:
    step = {**bench.training("train"), "Arguments": {"Get": "Steps.first.Request"}}
    result = started(bench, tmp_path, step)
    assert result.exit_code == 2, result.output
    assert "train: Arguments is the expression {'Get': 'Steps.first.Request'}" in result.output
