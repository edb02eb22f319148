"""The action for a user's repository: its form, and its steps run as a runner runs them."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_gate_command import CONFIG, write_replicate
from tests.end_to_end.test_main_job import WORKLOAD

PROJECT = Path(__file__).parents[2]
ACTION = PROJECT / "action.yml"
DESCRIBED = yaml.safe_load(ACTION.read_text())
STEPS: list[dict[str, Any]] = DESCRIBED["runs"]["steps"]
BIN = Path(sys.executable).parent
INJECTION = '"; touch "$RUNNER_TEMP/injected"; $(touch injected) `touch injected` #'

# It stands in for GitHub's own command: comments are stored in a file.
GH = """#!{python}
import json, os, sys
from pathlib import Path
words, stored = sys.argv[1:], Path(os.environ["RUNNER_TEMP"], "comments.json")
comments = json.loads(stored.read_text()) if stored.exists() else {{}}
assert words[0] == "api" and os.environ["GH_TOKEN"] == "the-token", words
if "--jq" in words:
    assert "startswith(env.MARKER)" in words[words.index("--jq") + 1]
    for number, body in comments.items():
        if body.startswith(os.environ["MARKER"]):
            print(number)
else:
    (body,) = [word.partition("=")[2] for word in words if word.startswith("body=")]
    path = words[words.index("--method") + 2]
    new = words[words.index("--method") + 1] == "POST"
    number = str(len(comments) + 1) if new else path.rpartition("/")[2]
    comments[number] = Path(body[1:]).read_text() if body.startswith("@") else body
    stored.write_text(json.dumps(comments))
"""


@dataclass
class Runner:
    """Runs the shell steps of the action in order, with the environment that GitHub gives them."""

    folder: Path
    inputs: dict[str, str]
    ran: list[str] = field(default_factory=list)
    printed: str = ""

    @property
    def temporary(self) -> Path:
        return self.folder / "runner"

    @property
    def outputs(self) -> dict[str, str]:
        """What the steps wrote to GITHUB_OUTPUT."""
        path = self.temporary / "output"
        text = path.read_text() if path.exists() else ""
        blocks = re.findall(r"^(\w+)<<(.+)\n((?:.*\n)*?)\2$", text, re.MULTILINE)
        plain = re.findall(r"^(\w+)=(.*)$", re.sub(r"(?ms)^\w+<<(.+?)\n.*?^\1$", "", text), re.M)
        return {name: value for name, _, value in blocks} | dict(plain)

    def run(self, *names: str) -> int:
        """Run these steps; returns the first exit status that is not 0, as the job's would be."""
        self.temporary.mkdir(exist_ok=True)
        failed = 0
        for step in STEPS:
            if step.get("name") not in names or (failed and "cancelled()" not in step["if"]):
                continue
            self.ran.append(step["name"])
            failed = self._shell(step) or failed
        return failed

    def _shell(self, step: Mapping[str, Any]) -> int:
        given = {name: self._value(str(text)) for name, text in step.get("env", {}).items()}
        script = self.temporary / "script.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=self.folder / self.inputs.get("working-directory", "."),
            env={**self._environment(), **given},
            capture_output=True,
            text=True,
            check=False,
        )
        self.printed += done.stdout + done.stderr
        return done.returncode

    def _value(self, text: str) -> str:
        """An expression of an `env:`; only such as the action has."""
        known = {
            "inputs.token": "the-token",
            "github.event.pull_request.number": "7",
            "inputs.workload || inputs.config": self._input("workload") or self._input("config"),
        }
        inner = re.fullmatch(r"\$\{\{ (.*) \}\}", text)
        assert inner is not None, text
        return known.get(inner[1]) or self._input(inner[1].removeprefix("inputs."))

    def _input(self, name: str) -> str:
        return self.inputs.get(name, str(DESCRIBED["inputs"][name]["default"]))

    def _environment(self) -> dict[str, str]:
        gh = self.folder / "bin" / "gh"
        gh.parent.mkdir(exist_ok=True)
        gh.write_text(GH.format(python=sys.executable))
        gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
        return {
            "PATH": os.pathsep.join([str(gh.parent), str(BIN), os.environ["PATH"]]),
            "HOME": os.environ.get("HOME", str(self.folder)),
            "OMP_NUM_THREADS": "1",
            "GITHUB_ACTION_PATH": str(PROJECT),
            "GITHUB_OUTPUT": str(self.temporary / "output"),
            "GITHUB_STEP_SUMMARY": str(self.temporary / "summary"),
            "GITHUB_REPOSITORY": "someone/models",
            "RUNNER_TEMP": str(self.temporary),
        }


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A repository with evidence of four jobs, and the experiment."""
    for arm in ("eager", "compiled"):
        for seed in (1, 2):
            write_replicate(tmp_path / "evidence", arm, seed)
    (tmp_path / "experiment.toml").write_text(CONFIG)
    return tmp_path


def of_gate(folder: Path, **inputs: str) -> Runner:
    given = {"command": "gate", "evidence": "evidence", "config": "experiment.toml"}
    return Runner(folder, {**given, "install": "none", **inputs})


def test_no_script_has_an_expression_and_only_the_comment_has_the_token() -> None:
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []
    assert [step["name"] for step in STEPS if "inputs.token" in str(step)] == ["Comment"]
    assert set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text())) == set(DESCRIBED["inputs"])
    assert all(described["description"] for described in DESCRIBED["inputs"].values())
    page = (PROJECT / "docs" / "github-action.md").read_text()
    for name in (*DESCRIBED["inputs"], *DESCRIBED["outputs"]):
        assert f"`{name}`" in page, name


@pytest.mark.slow
@pytest.mark.parametrize("text", [INJECTION, "train", ""])
def test_another_command_is_refused_and_runs_nothing_that_is_in_its_name(
    tmp_path: Path, text: str
) -> None:
    runner = Runner(tmp_path, {"command": text, "install": "none"})
    assert runner.run("Install") == 2
    assert "allowed: check, validate, run, gate" in runner.printed
    assert list(tmp_path.rglob("injected")) == []


@pytest.mark.slow
def test_scripts_are_checked_and_annotated(tmp_path: Path) -> None:
    loop = "for x in data:\n    loss = model(x)\n    loss.backward()\n    print(loss.item())\n"
    for name in ("one.py", "the other.py", "third.py"):
        (tmp_path / name).write_text(loop)
    inputs = {"command": "check", "install": "none", "paths": "one.py\nthe other.py\n"}
    runner = Runner(tmp_path, {**inputs, "fail-on": "warning", "sarif": "found.sarif"})
    assert runner.run("Install", "Check") == 7, runner.printed
    assert "::warning file=one.py,line=4,col=11,title=sync-in-step::" in runner.printed
    assert "file=the other.py,line=4" in runner.printed
    assert "third.py" not in runner.printed
    assert json.loads((tmp_path / "found.sarif").read_text())["version"] == "2.1.0"


@pytest.mark.slow
def test_evidence_is_judged_uploaded_and_commented_on_once(judged: Path) -> None:
    runner = of_gate(judged)
    for _ in range(2):
        assert runner.run("Install", "Gate", "Report", "Comment") == 0, runner.printed
    assert runner.outputs["arm"] == "compiled"
    folder = Path(runner.outputs["folder"])
    assert {"verdict.json", "report.html", "report.md", "junit.xml"} <= {
        path.name for path in folder.iterdir()
    }
    report = (folder / "report.md").read_text()
    assert (runner.temporary / "summary").read_text() == 2 * report
    (comment,) = json.loads((runner.temporary / "comments.json").read_text()).values()
    assert comment == f"<!-- compilegate verdict experiment.toml -->\n{report}"
    assert runner.outputs["comment"].startswith(comment)


@pytest.mark.slow
def test_where_no_model_may_ship_the_job_fails_with_its_report(judged: Path) -> None:
    (judged / "evidence" / "eager--2" / "evidence" / "evidence.json").unlink()
    runner = of_gate(judged)
    assert runner.run("Gate", "Report", "Comment") == 4
    assert runner.ran == ["Gate", "Report", "Comment"]
    assert runner.outputs["arm"] == "none"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "step", "name"),
    [
        *(("check", "Check", name) for name in ("paths", "compiler", "fail-on", "sarif")),
        *(("gate", "Gate", name) for name in ("evidence", "config")),
    ],
)
def test_an_input_is_never_a_script(judged: Path, command: str, step: str, name: str) -> None:
    runner = of_gate(judged, command=command, **{name: INJECTION})
    runner.run(step, "Report")
    assert [path for path in judged.rglob("injected") if path.name == "injected"] == []
    assert command == "check" or runner.outputs == {}


@pytest.mark.slow
def test_a_long_report_is_cut_between_characters(judged: Path) -> None:
    runner = of_gate(judged)
    assert runner.run("Gate") == 0
    long = "\N{EM DASH}" * 30_000  # three bytes each, of which 60,000 is no multiple less one
    (runner.temporary / "compilegate" / "report.md").write_text(f"x{long}")
    assert runner.run("Report") == 0
    comment = runner.outputs["comment"]
    assert len(comment.encode()) < 65_536
    assert "Cut here; the whole report is in the summary of the job." in comment


@pytest.mark.slow
def test_every_workload_is_validated_or_the_one_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "broken.toml").write_text("name = 3\n")
    runner = Runner(tmp_path, {"command": "validate", "install": "none"})
    assert runner.run("Install", "Validate", "Run") == 2
    assert "broken.toml: name is 3" in runner.printed
    runner.inputs["workload"] = INJECTION
    assert runner.run("Validate") == 2
    assert list(tmp_path.rglob("injected")) == []


@pytest.mark.slow
def test_a_workload_is_trained_judged_and_reported(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "workloads").mkdir(parents=True)
    for split, count in (("train", 48), ("validation", 24)):
        rows = [("sea", "ship harbour"), ("bank", "money loan")] * (count // 2)
        lines = [f"{split}-{i},{text},{label}" for i, (label, text) in enumerate(rows)]
        text = "\n".join(["id,text,label", *lines])
        (project / "workloads" / f"{split}.csv").write_text(text)
    declared = WORKLOAD.format(seeds=[1], compiler="eager", learning_rate="3e-3")
    (project / "workloads" / "tiny.toml").write_text(declared)
    given = {"workload": "tiny", "install": "none", "working-directory": "project"}
    runner = Runner(tmp_path, given)
    assert runner.run("Install", "Validate", "Run", "Report", "Comment") == 0, runner.printed
    assert runner.outputs["arm"] == "baseline"
    folder = Path(runner.outputs["folder"])
    assert (folder / "junit.xml").read_text().startswith("<?xml")
    assert "decided: Release baseline, seed 1" in runner.printed
    (comment,) = json.loads((runner.temporary / "comments.json").read_text()).values()
    assert comment.startswith("<!-- compilegate verdict tiny -->\n")
