"""JSON, SARIF and annotations: what is in them, and that their readers can take it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from compilegate.check.checking import check_paths
from compilegate.check.findings import Checked
from compilegate.check.output.annotations import annotation_lines
from compilegate.check.output.documents import json_text
from compilegate.check.output.sarif import sarif_text
from compilegate.check.output.text import text_lines
from tests.check.test_reading import notebook
from tests.check.writing import SLOW_STEP, written

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text())


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[Checked]:
    """A script, a notebook, a suppressed finding and a file that does not parse."""
    ignored = SLOW_STEP.replace(
        ".item()", ".item()  # compilegate: ignore[item-in-step] it decides"
    )
    named = {"train": SLOW_STEP, "known": ignored, "broken": "def f(:\n", "no:th,in%g": SLOW_STEP}
    notebook(written(tmp_path, **named) / "train.ipynb", "x = 1\n", SLOW_STEP)
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        yield check_paths([Path()], ("torch-compile",))
    finally:
        os.chdir(before)


def test_sarif_is_what_its_schema_allows(checked: Checked) -> None:
    faults = jsonschema.Draft7Validator(SCHEMA).iter_errors(
        json.loads(sarif_text(checked, "0.1.0"))
    )
    assert [each.message for each in faults] == []


def test_sarif_of_nothing_is_what_its_schema_allows(tmp_path: Path) -> None:
    nothing = check_paths([written(tmp_path, train="x = 1\n")])
    document = json.loads(sarif_text(nothing, "0.1.0"))
    faults = jsonschema.Draft7Validator(SCHEMA).iter_errors(document)
    assert [each.message for each in faults] == []
    assert document["runs"][0]["results"] == []


def test_sarif_tells_rules_places_suppressions_and_what_was_not_read(checked: Checked) -> None:
    (run,) = json.loads(sarif_text(checked, "0.1.0"))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    results = [each for each in run["results"] if each["ruleId"] == "item-in-step"]
    assert {rules[each["ruleIndex"]] for each in results} == {"item-in-step"}
    places = {
        each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]: each
        for each in results
    }
    assert sorted(places) == ["known.py", "no%3Ath%2Cin%25g.py", "train.ipynb", "train.py"]
    region = places["train.py"]["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (11, 18)
    assert (
        places["train.ipynb"]["properties"] | {"cell": 2, "line": 11}
        == (places["train.ipynb"]["properties"])
    )
    assert places["known.py"]["suppressions"] == [
        {"kind": "inSource", "justification": "it decides"}
    ]
    (unread,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "broken.py" in unread["message"]["text"]


def test_json_has_every_fact(checked: Checked) -> None:
    document = json.loads(json_text(checked))
    (finding,) = [
        each
        for each in document["findings"]
        if each["rule"] == "item-in-step" and each["path"] == "train.ipynb"
    ]
    assert (finding["cell"], finding["line"], finding["column"]) == (2, 11, 18)
    assert finding["severity"] == "warning"
    assert finding["compilers"] == ["torch-compile"]
    assert all(finding[name] for name in ("message", "why", "fix", "page"))
    assert [each["reason"] for each in document["suppressed"]] == ["it decides"]
    assert [each["path"] for each in document["unread"]] == ["broken.py"]
    assert sum(document["counts"].values()) == len(document["findings"])


def test_an_annotation_is_one_line_that_github_can_take_apart(checked: Checked) -> None:
    lines = list(annotation_lines(checked))
    (one,) = [line for line in lines if "file=train.py" in line and "item-in-step" in line]
    assert one.startswith(
        "::warning file=train.py,line=11,col=18,title=item-in-step::`loss.item()`"
    )
    assert any("file=no%3Ath%2Cin%25g.py," in line for line in lines)
    assert [line for line in lines if "\n" in line] == []
    form = re.compile(r"::(?:error|warning|notice) \w+=[^,:]+(?:,\w+=[^,:]+)*::.+")
    assert [line for line in lines[:-1] if not form.fullmatch(line)] == []


def test_a_script_cannot_give_the_workflow_a_command(tmp_path: Path) -> None:
    script = SLOW_STEP.replace("loss.item()", "loss['\\n::stop-commands::x'].item()")
    lines = list(annotation_lines(check_paths([written(tmp_path, train=script)])))
    assert [line for line in lines if line.startswith("::stop")] == []
    assert [line for line in lines if "\n" in line or "\r" in line] == []


def test_text_tells_why_and_what_to_do_once_for_each_rule(checked: Checked) -> None:
    lines = list(text_lines(checked))
    assert "train.py:11:18: warning: `loss.item()` reads a value from the device in each step " in (
        next(line for line in lines if line.startswith("train.py:11"))
    )
    assert "train.ipynb: cell 2, line 11: warning: " in "\n".join(lines)
    whys = [line for line in lines if line.startswith("    why: ")]
    assert len(whys) == len(set(whys)) == len({each.rule for each in checked.findings})
    assert lines[-1].startswith("4 files checked for torch-compile: ")
    assert lines[-1].endswith("; 1 ignored by comments")
