"""Whether GitHub's environment protects what the deploying role trusts, asked of a server here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
ENVIRONMENT, BRANCH = "environments/production", "branches/main"
POLICIES = f"{ENVIRONMENT}/deployment-branch-policies"
REVIEWED = {"type": "required_reviewers", "prevent_self_review": True, "reviewers": [{"id": 1}]}
PROTECTED: dict[str, Any] = {
    ENVIRONMENT: {
        "can_admins_bypass": False,
        "protection_rules": [REVIEWED],
        "deployment_branch_policy": {"protected_branches": False, "custom_branch_policies": True},
    },
    POLICIES: {"branch_policies": [{"name": "main"}]},
    BRANCH: {"protected": True},
}
Check = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def check(tmp_path: Path) -> Iterator[Check]:
    """Runs the check against a repository that answers with `PROTECTED`, but for what is given."""
    (tmp_path / "infra").mkdir()
    settings = '[github]\nrepository = "example@12/models@34"\n'
    (tmp_path / "infra" / "settings.toml").write_text(settings)
    answers: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(self.path.removeprefix("/repos/example/models/"))
            allowed = self.headers["Authorization"] == "Bearer secret"
            self.send_response((200 if found else 404) if allowed else 401)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    def run(given: dict[str, Any] | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        answers.clear()
        answers.update(PROTECTED | (given or {}))
        url = f"http://127.0.0.1:{server.server_port}"
        variables = {"PYTHONPATH": str(PROJECT), "GITHUB_API_URL": url, "GITHUB_TOKEN": "secret"}
        return subprocess.run(
            [sys.executable, "-m", "compilegate.infra.github"],
            cwd=tmp_path,
            env=os.environ | variables | more,
            capture_output=True,
            text=True,
            check=False,
        )

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield run
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({}, []),
        (
            {ENVIRONMENT: {"can_admins_bypass": True}, BRANCH: {"protected": False}},
            ["nobody has to approve", "administrators", "every branch", "everybody with write"],
        ),
        (
            {
                ENVIRONMENT: PROTECTED[ENVIRONMENT]
                | {"protection_rules": [REVIEWED | {"prevent_self_review": False}]},
                POLICIES: {"branch_policies": [{"name": "main"}, {"name": "try/*"}]},
            },
            ["whoever starts", "branches that can be deployed are main, try/*"],
        ),
        ({ENVIRONMENT: None}, ["the environment production does not exist"]),
    ],
)
def test_each_rule_that_is_missing_is_named(
    check: Check, answers: dict[str, Any], missing: list[str]
) -> None:
    done = check(answers)
    assert done.returncode == (1 if missing else 0), done.stderr
    for line, each in zip(done.stdout.splitlines() if missing else [], missing, strict=True):
        assert line.startswith(each)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"GITHUB_TOKEN": "", "GH_TOKEN": ""}, "GITHUB_TOKEN"),
        ({"GITHUB_TOKEN": "other"}, "401"),
        ({"GITHUB_API_URL": "http://127.0.0.1:9"}, "no answer to environments/production"),
    ],
)
def test_what_cannot_be_found_out_is_no_protection(
    check: Check, more: dict[str, str], why: str
) -> None:
    done = check(**more)
    assert done.returncode == 2
    assert why in done.stderr
