"""The count of public pipelines, on a repository that is made here, and the list."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import results

LIST = Path("benchmarks/public_pipelines.toml")
MODULE = """
import boto3
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.pipeline import Pipeline

boto3.client("s3").upload_file("data.csv", "a-bucket", "data.csv")
Pipeline(name="p", steps=[FailStep(name="stop", error_message="enough")]).start()
raise AssertionError("never reached")
"""
ENTRY = """
[[pipelines]]
repository = "somebody/pipelines"
path = "flow/pipeline.py"
commit = "{commit}"
outcome = "not tried"
sdk = "3"
[pipelines.files]
"flow/data.csv" = "table:tweets"
"""


@pytest.mark.slow
def test_a_pipeline_at_hand_is_run_once_and_the_list_gets_the_outcome(tmp_path: Path) -> None:
    clone = tmp_path / "clones/somebody/pipelines"
    (clone / "flow").mkdir(parents=True)
    (clone / "flow/pipeline.py").write_text(MODULE)
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    program = Path(shutil.copy(LIST.with_suffix(".py"), tmp_path))
    listed = program.with_suffix(".toml")
    shared = LIST.read_text().partition("[[pipelines]]")[0]
    listed.write_text(shared + ENTRY.format(commit=commit) + ENTRY.replace("somebody", "another"))
    counting = [sys.executable, program, tmp_path / "clones", tmp_path / "out"]
    counting.append(Path(sys.executable).with_name("compilegate"))
    for _ in range(2):
        printed = subprocess.check_output(counting, text=True)
        assert printed.splitlines()[-1] == "1 of 1 ran to their end"
    outcomes = [each["outcome"] for each in tomllib.loads(listed.read_text())["pipelines"]]
    assert outcomes == ["ended in its Fail step", "not tried"]


def test_the_list_holds_36_pipelines_that_ran_to_their_end_and_the_result_counts_them() -> None:
    pipelines = tomllib.loads(LIST.read_text())["pipelines"]
    assert len({(each["repository"], each["path"]) for each in pipelines}) == len(pipelines) == 69
    outcomes = Counter(each["outcome"] for each in pipelines)
    assert sum(count for each, count in outcomes.items() if each.startswith("ended")) >= 36
    published = {name: int(count) for name, count in results.read("public-pipelines").rows}
    assert published == outcomes
