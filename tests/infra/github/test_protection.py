"""Whether GitHub's environment protects what the deploying role trusts, asked of a server here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[3]
ENVIRONMENT, BRANCH = "environments/production", "branches/main"
POLICIES = f"{ENVIRONMENT}/deployment-branch-policies"
PROTECTED: dict[str, Any] = {
    ENVIRONMENT: {
        "can_admins_bypass": False,
        "protection_rules": [
            {
                "type": "required_reviewers",
                "prevent_self_review": True,
                "reviewers": [{"type": "User"}],
            }
        ],
        "deployment_branch_policy": {"protected_branches": False, "custom_branch_policies": True},
    },
    POLICIES: {"branch_policies": [{"name": "main"}]},
    BRANCH: {"protected": True},
}


@dataclass
class GitHub:
    """What a repository's address answers."""

    project: Path
    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)

    def check(self, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "compilegate.infra.github.protection"],
            cwd=self.project,
            env={
                **os.environ,
                "PYTHONPATH": str(PROJECT),
                "GITHUB_API_URL": self.url,
                "GITHUB_TOKEN": "secret",
                **more,
            },
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHub]:
    (tmp_path / "infra").mkdir()
    settings = '[github]\nrepository = "example@12/models@34"\n'
    (tmp_path / "infra" / "settings.toml").write_text(settings)
    made = GitHub(tmp_path, answers=dict(PROTECTED))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.tokens.append(self.headers["Authorization"])
            found = made.answers.get(self.path.removeprefix("/repos/example/models/"))
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_protected_environment_passes(github: GitHub) -> None:
    done = github.check()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "production of example/models: a person approves each deployment, and only main is "
        "deployed\n"
    )
    assert set(github.tokens) == {"Bearer secret"}


@pytest.mark.slow
def test_everything_that_is_missing_is_said_at_once(github: GitHub) -> None:
    github.answers[ENVIRONMENT] = {
        "can_admins_bypass": True,
        "protection_rules": [],
        "deployment_branch_policy": None,
    }
    github.answers[BRANCH] = {"protected": False}
    done = github.check()
    assert done.returncode == 1
    assert [line.partition(";")[0] for line in done.stdout.splitlines()] == [
        "nobody has to approve a deployment",
        "administrators can pass by the rules",
        "every branch can be deployed",
        "everybody with write access can push to main",
    ]


@pytest.mark.slow
def test_a_branch_too_many_and_a_review_of_ones_own_are_said(github: GitHub) -> None:
    (rule,) = PROTECTED[ENVIRONMENT]["protection_rules"]
    github.answers[ENVIRONMENT] = {
        **PROTECTED[ENVIRONMENT],
        "protection_rules": [{**rule, "prevent_self_review": False}],
    }
    github.answers[POLICIES] = {"branch_policies": [{"name": "main"}, {"name": "try/*"}]}
    done = github.check()
    assert done.returncode == 1
    own, branches = done.stdout.splitlines()
    assert own.startswith("whoever starts a deployment may approve it; prevent self-review in the")
    assert branches.startswith("deployed may be main, try/*, allowed: main alone; change it in the")


@pytest.mark.slow
def test_what_cannot_be_found_out_is_no_protection(github: GitHub) -> None:
    del github.answers[ENVIRONMENT]
    assert github.check().stdout.startswith("the environment production does not exist, or the")
    refused = github.check(GITHUB_TOKEN="", GH_TOKEN="")
    assert refused.returncode == 2
    assert "there is no GITHUB_TOKEN" in refused.stderr
    silent = github.check(GITHUB_API_URL="http://127.0.0.1:9")
    assert silent.returncode == 2
    assert "GitHub gives no answer to environments/production: " in silent.stderr
    (github.project / "infra" / "settings.toml").write_text("")
    assert "infra/settings.toml: github: it is missing" in github.check().stderr
