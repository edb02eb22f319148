"""Checks that GitHub's environment protects what the deploying role trusts.

    GITHUB_TOKEN=... python -m compilegate.infra.github

AWS lets every job of the environment deploy that is of the right branch and workflow; who may start
such a job is GitHub's to decide, by the rules of the environment. The token needs to read the
repository's environments and branches: of a fine-grained one, `Actions: read` and `Contents: read`.

Exit code 0: protected. 1: a rule is missing, and is named. 2: it could not be found out.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from compilegate.account.settings import SETTINGS_FILE, SettingsError, read_settings
from compilegate.account.settings.declaration import GitHub
from compilegate.errors import CompilegateError

API, SECONDS = "https://api.github.com", 20


class GitHubError(CompilegateError):
    """GitHub gave no answer that could be used. The message names the request."""


def main() -> int:
    try:
        github = read_settings(SETTINGS_FILE).github
        if github is None:
            raise SettingsError(f"{SETTINGS_FILE}: github is missing, expected for a CI's deploys")
        repository = "/".join(part.partition("@")[0] for part in github.repository.split("/"))
        missing = list(_missing(github, repository))
    except CompilegateError as error:
        print(f"The environment's protection could not be checked: {error}", file=sys.stderr)
        return 2
    for sentence in missing:
        print(sentence)
    if not missing:
        print(
            f"{github.environment} of {repository}: a person approves each deployment, and only "
            f"{github.branch} is deployed"
        )
    return 1 if missing else 0


def _missing(github: GitHub, repository: str) -> Iterator[str]:
    """A sentence for each rule that is missing, with what to do. Raises GitHubError."""
    name, path = github.environment, f"environments/{quote(github.environment, safe='')}"
    page = f"in the settings of {repository}, under Environments, {name}"
    environment = _ask(repository, path)
    if environment is None:
        yield (
            f"the environment {name} does not exist, or the token may not see it: GitHub makes one "
            f"without any rule for the first job that asks for it; make it {page}"
        )
        return
    rules = {rule["type"]: rule for rule in environment.get("protection_rules", [])}
    reviewers = rules.get("required_reviewers", {})
    if not reviewers.get("reviewers"):
        yield f"nobody has to approve a deployment; name required reviewers {page}"
    elif not reviewers.get("prevent_self_review"):
        yield f"whoever starts a deployment may approve it; prevent self-review {page}"
    if environment.get("can_admins_bypass"):
        yield f"administrators can pass by the rules; forbid that {page}"
    policy = environment.get("deployment_branch_policy")
    if policy is None:
        yield f"every branch can be deployed; allow {github.branch} alone {page}"
    elif policy.get("custom_branch_policies"):
        listed = _ask(repository, f"{path}/deployment-branch-policies") or {}
        names = sorted(str(each["name"]) for each in listed.get("branch_policies", []))
        if names != [github.branch]:
            yield (
                f"branches that can be deployed are {', '.join(names) or 'none'}, expected "
                f"{github.branch} alone; change it {page}"
            )
    branch = _ask(repository, f"branches/{quote(github.branch, safe='')}")
    if branch is None:
        yield f"the branch {github.branch} does not exist, or the token may not see it"
    elif not branch.get("protected"):
        yield (
            f"everybody with write access can push to {github.branch}; protect it with a rule that "
            f"asks for a review, in the settings of {repository}, under Rules"
        )


def _ask(repository: str, path: str) -> Any:
    """What GitHub answers about the repository; None where there is nothing. Raises GitHubError."""
    token = os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN")
    root = os.environ.get("GITHUB_API_URL", API).rstrip("/")
    if not token:
        raise GitHubError("GITHUB_TOKEN is not set, expected a token that may read the repository")
    if not root.startswith(("http://", "https://")):
        raise GitHubError(f"GITHUB_API_URL is {root!r}, expected an address that begins with https")
    request = urllib.request.Request(  # noqa: S310  of http, as checked
        f"{root}/repos/{repository}/{path}",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise GitHubError(f"GitHub answers {error.code} to {path}") from error
    except (OSError, ValueError) as error:
        raise GitHubError(f"GitHub gives no answer to {path}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
