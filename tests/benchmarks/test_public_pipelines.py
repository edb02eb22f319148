"""The survey of public pipelines: what it lists, makes and tells, without any of their files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.public_pipelines.listing import Pipeline, read_pipelines
from benchmarks.public_pipelines.made_data import made, public_objects
from benchmarks.public_pipelines.running import explain, options_of, run
from benchmarks.public_pipelines.survey import record, recorded
from benchmarks.public_pipelines.table import table

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("compilegate")


def test_the_list_names_each_pipeline_once_and_only_data_that_can_be_made() -> None:
    pipelines = read_pipelines()
    assert len({each.folder for each in pipelines}) == len(pipelines)
    for each in pipelines:
        assert each.sdk in {"2", "3"}
        for kind in (*each.data.values(), *each.files.values()):
            assert kind.startswith("file:") or made(kind)


def test_made_data_is_the_same_every_time() -> None:
    first = dict(public_objects())
    assert first == dict(public_objects())
    lengths = {len(line.split(",")) for line in made("churn").decode().splitlines()}
    assert lengths == {21}


def definition(path: Path, *steps: object) -> Path:
    path.write_text(json.dumps({"Version": "2020-12-01", "Parameters": [], "Steps": list(steps)}))
    return path


FAIL = {"Name": "stop", "Type": "Fail", "Arguments": {"ErrorMessage": "enough"}}
CHECK = {"Name": "check", "Type": "QualityCheck", "Arguments": {}}


@pytest.mark.slow
def test_a_definition_is_explained_and_run_with_what_the_list_gives(tmp_path: Path) -> None:
    pipeline = Pipeline("a/b", "p.py", "2", skip=("check",), images={"*torch*": ("torch",)})
    options = options_of(pipeline, tmp_path, sys.executable)
    image = Path(options[options.index("--image") + 1].partition("=")[2])
    assert (image / "requirements.txt").read_text() == "torch\n"
    path = definition(tmp_path / "x.json", CHECK, FAIL)
    assert explain(PROGRAM, path, options, tmp_path / "explain.log") == ("", [])
    row = run(PROGRAM, path, options, tmp_path / "run.log")
    assert (row["result"], row["why"]) == ("its own Fail step", "")
    unaided = options_of(Pipeline("a/b", "p.py", "2"), tmp_path, sys.executable)
    wrong, blockers = explain(PROGRAM, path, unaided, tmp_path / "explain.log")
    assert (wrong, len(blockers)) == ("", 1)
    assert "QualityCheck" in run(PROGRAM, path, unaided, tmp_path / "run.log")["why"]


def test_the_table_counts_what_ended_and_says_what_was_given(tmp_path: Path) -> None:
    pipelines = [
        Pipeline("a/b", "flow/pipeline.py", "2"),
        Pipeline("a/b", "other.py", "2", skip=("Deploy",), parameters={"x": "1"}),
        Pipeline("c/d", "third.py", "3"),
        Pipeline("e/f", "fourth.py", "3"),
    ]
    common = {"commit": "0123456789", "seconds": 12.0, "why": "", "blockers": []}
    rows = [
        {**common, "result": "ended", "steps": ["Training", "RegisterModel"]},
        {**common, "result": "its own Fail step", "steps": ["Fail"]},
        {**common, "result": "refused", "why": "x: | y", "steps": ["EMR"], "blockers": ["x"]},
    ]
    record(tmp_path, pipelines[0].key, {**rows[0], "result": "compiled"})
    record(tmp_path, pipelines[0].key, {**rows[0], "result": "refused"})
    for pipeline, row in zip(pipelines, rows, strict=False):
        record(tmp_path, pipeline.key, row)
    text = table(pipelines, recorded(tmp_path))
    assert text.startswith("**2 of 4** came to their end or to their own Fail step, 1 of them")
    assert "in 1 of 3 repositories" in text
    assert "1 repositories have a pipeline none of whose steps" in text
    assert "knows every step type of 1." in text
    assert "1 not tried" in text
    assert "First tries are kept of 3" in text
    assert "start with: 2 refused, 1 its own Fail step. With what they ask for, 2 of" in text
    assert "| without `Deploy`, parameters | yes |" in text
    assert "https://github.com/a/b/blob/0123456789/flow/pipeline.py" in text
