"""The GitHub Actions workflow: its form, its permissions, and that what it calls is there."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from compilegate.cli.main import aws

PROJECT = Path(__file__).parents[2]
WORKFLOWS = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))
DELIVERY = (PROJECT / ".github" / "workflows" / "delivery.yml").read_text()
ACTION = PROJECT / "action.yml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(DELIVERY)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
SCRIPTS: list[str] = [
    step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step
]
BIN = Path(sys.executable).parent
BECOMES_A_ROLE = "aws-actions/configure-aws-credentials@"


def calls(program: str) -> list[list[str]]:
    """The words of every call of a program in any script."""
    lines = [line for script in SCRIPTS for line in script.replace("\\\n", " ").splitlines()]
    commands = [part for line in lines for part in re.split(r"\|\||&&|[|;>{}]", line)]
    words = [shlex.split(command) for command in commands if program in command]
    return [found[found.index(program) + 1 :] for found in words if program in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS],
        ["check-jsonschema", "--builtin-schema", "vendor.github-actions", ACTION],
        ["zizmor", "--offline", "--no-progress", "--pedantic", ACTION, *WORKFLOWS],
    ],
    ids=["the workflows' schema", "the action's schema", "an auditor"],
)
def test_workflows_and_action_have_the_form_that_github_publishes(command: list[Any]) -> None:
    line = [BIN / command[0], *command[1:]]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_action_is_pinned_and_there_are_no_keys() -> None:
    text = DELIVERY + ACTION.read_text()
    lines = [line for line in text.splitlines() if "uses:" in line and "uses: ./" not in line]
    assert lines
    pinned = re.compile(r"uses: (actions|aws-actions)/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
    assert [line for line in lines if not pinned.search(line)] == []
    assert not re.search(r"secrets\.|access[-_]key", DELIVERY, re.IGNORECASE)
    assert [script for script in SCRIPTS if "${{" in script] == [], "others write expressions"


def test_a_job_has_an_identity_only_for_its_role_and_pull_requests_one_that_only_reads() -> None:
    assert WORKFLOW["permissions"] == {}
    assert any("pull_request" in job.get("if", "") for job in JOBS.values())
    for name, job in JOBS.items():
        roles = [
            step["with"]["role-to-assume"]
            for step in job["steps"]
            if step.get("uses", "").startswith(BECOMES_A_ROLE)
        ]
        assert (job["permissions"].get("id-token") == "write") == bool(roles), name
        if roles and "pull_request" in job.get("if", ""):
            assert roles == ["${{ vars.AWS_PLAN_ROLE_ARN }}"], name
            assert "head.repo.full_name == github.repository" in job["if"]
            assert "environment" not in job
        elif roles:
            assert roles == ["${{ vars.AWS_DEPLOY_ROLE_ARN }}"], name
            assert job["environment"] in {
                "${{ vars.TRAINING_ENVIRONMENT || 'production' }}",
                "${{ inputs.environment }}",
            }
    writers = [job for job in JOBS.values() if job["permissions"].get("pull-requests") == "write"]
    assert len(writers) == 2
    assert not any("uses" in step for job in writers for step in job["steps"])


def test_jobs_wait_for_one_another_and_a_schedule_deploys_nothing() -> None:
    needs = {name: job["needs"] for name, job in JOBS.items() if "needs" in job}
    chain = {"deploy": "test", "submit": "deploy", "promote": "test", "propose": "bases"}
    assert needs.items() >= chain.items()
    for name, has in (("deploy", "inputs.model == ''"), ("promote", "inputs.model != ''")):
        assert has in JOBS[name]["if"]
        assert "refs/heads/main" in JOBS[name]["if"]
    assert not any("submit" in step.get("run", "") for step in JOBS["promote"]["steps"])
    # YAML takes the word `on` for a truth.
    assert WORKFLOW[True]["schedule"] == [{"cron": "0 5 * * 1"}]
    assert "github.event_name == 'schedule'" in JOBS["bases"]["if"]
    assert "github.event_name != 'schedule'" in JOBS["test"]["if"]
    assert JOBS["propose"]["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert ".ci/run" in SCRIPTS
    assert (PROJECT / ".ci" / "run").is_file()


GH = """#!/bin/sh
echo "$@" >> calls
case "$*" in
  *state=all*) echo {proposed} ;;
  *heads/main*) echo 0123abc ;;
  *"contents/infra/images.lock.toml?ref"*) echo 4567def ;;
esac
"""


@pytest.mark.slow
@pytest.mark.parametrize("proposed", [False, True])
def test_a_patched_base_is_proposed_once_as_a_change_like_any_other(
    proposed: bool, tmp_path: Path
) -> None:
    lock = '["pytorch-training:2.13"]\ndigest = "sha256:2"\n'
    gh = tmp_path / "gh"
    gh.write_text(GH.format(proposed=int(proposed)))
    gh.chmod(0o755)
    (step,) = JOBS["propose"]["steps"]
    given = {"REPOSITORY": "acme/models", "OWNER": "acme", "LOCK": lock.rstrip("\n")}
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **given}
    command = ["bash", "-e", "-c", step["run"]]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    requests = (tmp_path / "calls").read_text()
    assert ("repos/acme/models/pulls --raw-field" in requests) != proposed
    written = re.search(r"--method PUT.*content=(\S+)", requests)
    assert (written is None) == proposed
    if written is not None:
        assert base64.b64decode(written[1]).decode() == lock
        assert "sha=4567def" in requests


@pytest.mark.slow
def test_every_script_is_one_that_bash_reads() -> None:
    for script in SCRIPTS:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [10, 10_000])
def test_a_plan_too_long_for_a_comment_is_cut_and_stays_readable(
    tmp_path: Path, lines: int
) -> None:
    plan = "### Plan\n\n" + "| 4 training | ml.g5.xlarge |\n" * lines + "\nCost: $1\n"
    (tmp_path / "plan.md").write_text(plan)
    (tmp_path / "diff.txt").write_text("Stack topics\n")
    (script,) = [each for each in SCRIPTS if "comment<<" in each]
    output, summary = tmp_path / "output", tmp_path / "summary"
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, **files}, check=True)
    comment = output.read_text()
    assert len(comment) < 65_536
    before, after = comment.split("<details>")
    assert ("Cut here" in before) == (lines == 10_000)
    assert "Stack topics" in after
    assert summary.read_text() == plan


@pytest.mark.slow
def test_every_make_target_command_and_option_of_ours_is_there() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = {words[0] for words in calls("make")}
    assert targets == {"setup-deploy", "diff", "deploy"}
    assert targets <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    commands = calls(".venv/bin/compilegate")
    names = {tuple(words[:2]) for words in commands}
    assert names == {("aws", each) for each in ("images", "plan", "promote", "submit")}
    for _, name, *words in commands:
        command = aws.get_command(click.Context(aws), name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("target", ["deploy", "adopt"])
def test_no_pipeline_is_deployed_before_its_images_and_data_are_there(target: str) -> None:
    """A schedule that starts in between would find nothing."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition(f"\n{target}: ")[2].partition("\n\n")[0]
    steps = "$(PIN) $(SYNTH) $(DEPLOY)\\ $(IMAGES) $(BUILD) $(UPLOAD) $(DEPLOY)\\ --all"
    wanted = [f"\t@{step}" for step in shlex.split(steps)]
    lines = [line for line in recipe.splitlines() if line.startswith(tuple(wanted))]
    assert all(line.startswith(step) for line, step in zip(lines, wanted, strict=True))
    for name, command in (
        ("PIN", "images --pin --missing"),
        ("BUILD", "images --build --wait"),
        ("UPLOAD", "upload --all"),
    ):
        assert command in makefile.partition(f"\n{name} := ")[2].partition("\n")[0]
    # `make deploy STAGE=prod` sets it, whatever the file says: a recipe would run `prod`.
    assert "$(STAGE)" not in recipe
