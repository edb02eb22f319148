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
DELIVERY = PROJECT / ".github" / "workflows" / "delivery.yml"
ACTION = PROJECT / "action.yml"
BIN = Path(sys.executable).parent
BECOMES_A_ROLE = "aws-actions/configure-aws-credentials@"

Job = dict[str, Any]


def jobs() -> dict[str, Job]:
    found: dict[str, Job] = yaml.safe_load(DELIVERY.read_text())["jobs"]
    return found


def actions(job: Job) -> list[str]:
    return [step["uses"] for step in job["steps"] if "uses" in step]


def scripts() -> list[str]:
    return [step["run"] for job in jobs().values() for step in job["steps"] if "run" in step]


def calls(program: str) -> list[list[str]]:
    """The words of every call of a program in any script."""
    lines = [line for script in scripts() for line in script.replace("\\\n", " ").splitlines()]
    commands = [part for line in lines for part in re.split(r"\|\||&&|[|;>{}]", line)]
    words = [shlex.split(command) for command in commands if program in command]
    return [found[found.index(program) + 1 :] for found in words if program in found]


@pytest.mark.slow
def test_workflows_have_the_form_that_github_publishes() -> None:
    command = [BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_an_auditor_of_workflows_finds_nothing() -> None:
    command = [BIN / "zizmor", "--offline", "--no-progress", "--pedantic", ACTION, *WORKFLOWS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_action_is_pinned_to_a_commit_and_says_its_version() -> None:
    text = DELIVERY.read_text() + ACTION.read_text()
    lines = [line for line in text.splitlines() if "uses:" in line and "uses: ./" not in line]
    assert lines
    for line in lines:
        assert re.search(
            r"uses: (actions|aws-actions)/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line
        )


def test_only_jobs_that_become_a_role_get_an_identity() -> None:
    assert yaml.safe_load(DELIVERY.read_text())["permissions"] == {}
    for name, job in jobs().items():
        becomes = any(action.startswith(BECOMES_A_ROLE) for action in actions(job))
        assert (job["permissions"].get("id-token") == "write") == becomes, name


def test_there_are_no_keys() -> None:
    text = DELIVERY.read_text()
    assert "secrets." not in text
    assert "access-key" not in text.lower()
    assert "ACCESS_KEY" not in text


def test_pull_requests_get_the_role_that_only_looks() -> None:
    asked = [job for job in jobs().values() if "pull_request" in job.get("if", "")]
    assert asked
    for name, job in jobs().items():
        roles = [
            step["with"]["role-to-assume"]
            for step in job["steps"]
            if step.get("uses", "").startswith(BECOMES_A_ROLE)
        ]
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


def test_what_writes_comments_runs_nothing_of_the_pull_request() -> None:
    writers = [
        job for job in jobs().values() if "write" in job["permissions"].get("pull-requests", "")
    ]
    assert [actions(job) for job in writers] == [[], []]


@pytest.mark.slow
def test_deploying_waits_for_the_tests_and_submitting_for_the_deployment() -> None:
    assert jobs()["deploy"]["needs"] == "test"
    assert "refs/heads/main" in jobs()["deploy"]["if"]
    assert jobs()["submit"]["needs"] == "deploy"


@pytest.mark.slow
def test_promoting_trains_nothing_and_happens_on_demand_alone() -> None:
    assert jobs()["promote"]["needs"] == "test"
    for name, has in (("deploy", "inputs.model == ''"), ("promote", "inputs.model != ''")):
        assert has in jobs()[name]["if"]
        assert "refs/heads/main" in jobs()[name]["if"]
    assert not any("submit" in step.get("run", "") for step in jobs()["promote"]["steps"])


@pytest.mark.slow
def test_a_schedule_looks_at_base_images_and_deploys_nothing() -> None:
    on = yaml.safe_load(DELIVERY.read_text())[True]  # YAML takes the word `on` for a truth
    assert on["schedule"] == [{"cron": "0 5 * * 1"}]
    scheduled = "github.event_name == 'schedule'"
    assert scheduled in jobs()["bases"]["if"]
    # Deploying, submitting and promoting wait for the tests, which a schedule does not run.
    assert "github.event_name != 'schedule'" in jobs()["test"]["if"]
    assert jobs()["propose"]["needs"] == "bases"
    assert jobs()["propose"]["permissions"] == {"contents": "write", "pull-requests": "write"}


@pytest.mark.slow
@pytest.mark.parametrize("proposed", [False, True])
def test_a_patched_base_is_proposed_once_as_a_change_like_any_other(
    proposed: bool, tmp_path: Path
) -> None:
    lock = '["pytorch-training:2.13"]\ndigest = "sha256:2"\n'
    gh = tmp_path / "gh"
    gh.write_text(
        "#!/bin/sh\n"
        'echo "$@" >> calls\n'
        'case "$*" in\n'
        f"  *state=all*) echo {int(proposed)} ;;\n"
        "  *heads/main*) echo 0123abc ;;\n"
        '  *"contents/infra/images.lock.toml?ref"*) echo 4567def ;;\n'
        "esac\n"
    )
    gh.chmod(0o755)
    (step,) = jobs()["propose"]["steps"]
    subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "REPOSITORY": "acme/models",
            "OWNER": "acme",
            "LOCK": lock.rstrip("\n"),
        },
        check=True,
    )
    asked = (tmp_path / "calls").read_text()
    assert ("repos/acme/models/pulls --raw-field" in asked) != proposed
    assert ("--method PUT" in asked) != proposed
    if not proposed:
        written = re.search(r"content=(\S+)", asked)
        assert written is not None
        assert base64.b64decode(written[1]).decode() == lock
        assert "sha=4567def" in asked


def test_what_others_write_is_never_part_of_a_script() -> None:
    assert [script for script in scripts() if "${{" in script] == []


@pytest.mark.slow
@pytest.mark.parametrize("script", scripts())
def test_every_script_is_one_that_bash_reads(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("lines", [10, 10_000])
def test_a_plan_too_long_for_a_comment_is_cut_and_stays_readable(
    tmp_path: Path, lines: int
) -> None:
    plan = "### Plan\n\n" + "| 4 training | ml.g5.xlarge |\n" * lines + "\nCost: $1\n"
    (tmp_path / "plan.md").write_text(plan)
    (tmp_path / "diff.txt").write_text("Stack topics\n")
    (script,) = [each for each in scripts() if "comment<<" in each]
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


def test_every_make_target_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    called = [words[0] for words in calls("make")]
    assert set(called) == {"setup-deploy", "diff", "deploy"}
    assert set(called) <= targets


@pytest.mark.slow
def test_every_command_and_option_of_ours_is_there() -> None:
    called = calls(".venv/bin/compilegate")
    assert {words[0] for words in called} == {"aws"}
    assert {words[1] for words in called} == {"images", "plan", "promote", "submit"}
    for _, name, *words in called:
        command = aws.get_command(click.Context(aws), name)
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_the_tests_are_those_of_a_clean_clone() -> None:
    assert ".ci/run" in scripts()
    assert (PROJECT / ".ci" / "run").is_file()


@pytest.mark.parametrize("target", ["deploy", "adopt"])
def test_no_pipeline_is_deployed_before_its_images_and_data_are_there(target: str) -> None:
    """A schedule that starts in between would find nothing."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition(f"\n{target}: ")[2].partition("\n\n")[0]
    steps = (
        "$(PIN)",
        "$(SYNTH)",
        "$(DEPLOY) $(IMAGES)",
        "$(BUILD)",
        "$(UPLOAD)",
        "$(DEPLOY) --all",
    )
    lines = [
        line for line in recipe.splitlines() if line.startswith(tuple(f"\t@{s}" for s in steps))
    ]
    assert all(line.startswith(f"\t@{step}") for line, step in zip(lines, steps, strict=True))
    for name, command in (
        ("PIN", "images --pin --missing"),
        ("BUILD", "images --build --wait"),
        ("UPLOAD", "upload --all"),
    ):
        assert command in makefile.partition(f"\n{name} := ")[2].partition("\n")[0]
    # `make deploy STAGE=prod` sets it, whatever the file says: a recipe would run `prod`.
    assert "$(STAGE)" not in recipe
