"""JSON, SARIF and annotations: what is in them, and that their readers can take it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from compilegate.check.checking import CheckResult, check_paths
from compilegate.check.output import NOTHING, annotations_of, json_of, sarif_of, text_of
from tests.check.folders import SLOW_STEP, check, notebook, written

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text())
IGNORED = SLOW_STEP.replace(".item()", ".item()  # compilegate: ignore[sync-in-step] it decides")


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    """A script, a notebook, a suppressed finding and a file that does not parse."""
    named = {"train": SLOW_STEP, "known": IGNORED, "broken": "def f(:\n", "no:th,in%g": SLOW_STEP}
    notebook(written(tmp_path, **named) / "train.ipynb", "x = 1\n", SLOW_STEP)
    monkeypatch.chdir(tmp_path)
    return check_paths([Path()], ("torch-compile",))


def test_sarif_tells_rules_places_suppressions_and_what_was_not_read(checked: CheckResult) -> None:
    document = json.loads(sarif_of(checked, "0.1.0"))
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    (run,) = document["runs"]
    results = [each for each in run["results"] if each["ruleId"] == "sync-in-step"]
    rules = run["tool"]["driver"]["rules"]
    assert {rules[each["ruleIndex"]]["id"] for each in results} == {"sync-in-step"}
    at = [each["locations"][0]["physicalLocation"] for each in results]
    files = {each["artifactLocation"]["uri"]: (each["region"], result)
             for each, result in zip(at, results, strict=True)}  # fmt: skip
    assert sorted(files) == ["known.py", "no%3Ath%2Cin%25g.py", "train.ipynb", "train.py"]
    assert files["train.py"][0] == {"startLine": 11, "startColumn": 18}
    assert {"cell": 2, "line": 11}.items() <= files["train.ipynb"][1]["properties"].items()
    said = [{"kind": "inSource", "justification": "it decides"}]
    assert files["known.py"][1]["suppressions"] == said
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert ["broken.py" in each["message"]["text"] for each in notes] == [True, False]


def test_sarif_of_nothing_is_what_its_schema_allows(tmp_path: Path) -> None:
    document = json.loads(sarif_of(check(tmp_path, train="x = 1\n"), "0.1.0"))
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    (run,) = document["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert (run["results"], note["message"]["text"]) == ([], NOTHING)


def test_json_has_every_fact(checked: CheckResult) -> None:
    document = json.loads(json_of(checked))
    rows = [each for each in document["findings"] if each["path"] == "train.ipynb"]
    finding = next(each for each in rows if each["rule"] == "sync-in-step")
    assert (finding["cell"], finding["line"], finding["column"]) == (2, 11, 18)
    assert (finding["severity"], finding["compilers"]) == ("warning", ["torch-compile"])
    assert all(finding[name] for name in ("message", "why", "fix", "page"))
    assert [each["suppressed"] for each in document["suppressed"]] == ["it decides"]
    assert [each["path"] for each in document["unread"]] == ["broken.py"]
    assert sum(document["counts"].values()) == len(document["findings"])
    assert len(document["read"]["loops"]) == 4


def test_an_annotation_is_one_line_that_github_can_take_apart(checked: CheckResult) -> None:
    *lines, read, counted = annotations_of(checked).splitlines()
    (one,) = [line for line in lines if "file=train.py" in line and "sync-in-step" in line]
    assert one.startswith(
        "::warning file=train.py,line=11,col=18,title=sync-in-step::`loss.item()`"
    )
    assert any("file=no%3Ath%2Cin%25g.py," in line for line in lines)
    form = re.compile(r"::(?:error|warning|notice) \w+=[^,:]+(?:,\w+=[^,:]+)*::.+")
    assert [line for line in lines if not form.fullmatch(line)] == []
    assert (read[:6], counted[:15]) == ("read: ", "4 files checked")


def test_a_script_cannot_give_the_workflow_a_command(tmp_path: Path) -> None:
    script = SLOW_STEP.replace("loss.item()", "loss['\\n::stop-commands::x'].item()")
    lines = annotations_of(check(tmp_path, train=script)).splitlines()
    assert [line for line in lines if line.startswith("::stop") or "\r" in line] == []


def test_text_tells_why_and_what_to_do_once_for_each_rule(checked: CheckResult) -> None:
    first, *lines, last = text_of(checked).splitlines()
    for place in ("train.py:11:18: warning: `loss.item()` reads", "train.ipynb: cell 2, line 11: "):
        assert any(line.startswith(place) for line in lines)
    assert sum(line.startswith("    why: ") for line in lines) == len(
        {each.rule for each in checked.findings}
    )
    assert first.startswith("read: ")
    assert last.endswith("; 1 ignored by comments")
