"""Checks that GitHub's environment protects what the deploying role trusts.

    GITHUB_TOKEN=... python -m compilegate.infra.github.protection

AWS lets every job of the environment deploy that is of the right branch and workflow; who may start
such a job is GitHub's to decide, by the rules of the environment. The token needs to read the
repository's environments and branches: of a fine-grained one, `Actions: read` and `Contents: read`.

Exit code 0: protected. 1: something is missing, and is said. 2: it could not be found out.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from compilegate.account.settings import SETTINGS_FILE, SettingsError, read_settings
from compilegate.account.settings.declaration import GitHub
from compilegate.errors import CompilegateError

UNPROTECTED, UNKNOWN = 1, 2
SECONDS = 20
API = "https://api.github.com"
Ask = Callable[[str], Any]
"""What a path below the repository's answers; None where there is nothing."""


class GitHubError(CompilegateError):
    """GitHub gave no answer that could be used. The message says what was asked for."""


def main() -> int:
    try:
        github = read_settings(SETTINGS_FILE).github
        if github is None:
            raise SettingsError(
                f"{SETTINGS_FILE}: github: it is missing, and must be given for a CI that deploys"
            )
        missing = list(lacks(github, asking(github)))
    except (GitHubError, SettingsError) as error:
        print(f"The environment's protection could not be checked: {error}", file=sys.stderr)
        return UNKNOWN
    for sentence in missing:
        print(sentence)
    if not missing:
        print(
            f"{github.environment} of {_repository(github)}: a person approves each deployment, "
            f"and only {github.branch} is deployed"
        )
    return UNPROTECTED if missing else 0


def lacks(github: GitHub, ask: Ask) -> Iterator[str]:
    """A sentence for each rule that is missing, with what to do."""
    name = github.environment
    quoted = urllib.parse.quote(name, safe="")
    environment = ask(f"environments/{quoted}")
    page = f"in the settings of {_repository(github)}, under Environments, {name}"
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
    yield from _branches(github, environment.get("deployment_branch_policy"), ask, page)


def _branches(github: GitHub, policy: Any, ask: Ask, page: str) -> Iterator[str]:
    """Only the branch that the role trusts may be deployed, and not everybody may push to it."""
    if policy is None:
        yield f"every branch can be deployed; allow {github.branch} alone {page}"
    elif policy.get("custom_branch_policies"):
        quoted = urllib.parse.quote(github.environment, safe="")
        listed = ask(f"environments/{quoted}/deployment-branch-policies") or {}
        names = sorted(str(each["name"]) for each in listed.get("branch_policies", []))
        if names != [github.branch]:
            yield (
                f"deployed may be {', '.join(names) or 'nothing'}, allowed: {github.branch} alone; "
                f"change it {page}"
            )
    branch = ask(f"branches/{urllib.parse.quote(github.branch, safe='')}")
    if branch is None:
        yield f"the branch {github.branch} does not exist, or the token may not see it"
    elif not branch.get("protected"):
        yield (
            f"everybody with write access can push to {github.branch}; protect it with a rule that "
            f"asks for a review, in the settings of {_repository(github)}, under Rules"
        )


def asking(github: GitHub) -> Ask:
    """Questions to GitHub about the repository. Raises GitHubError."""
    token = os.environ.get("GITHUB_TOKEN") or os.environ.get("GH_TOKEN")
    if not token:
        raise GitHubError(
            "there is no GITHUB_TOKEN; set it to a token that may read the repository"
        )
    root = os.environ.get("GITHUB_API_URL", API).rstrip("/")
    if not root.startswith(("http://", "https://")):
        raise GitHubError(f"GITHUB_API_URL is {root!r}, allowed: an address that begins with https")

    def ask(path: str) -> Any:
        request = urllib.request.Request(  # noqa: S310  of http, as checked
            f"{root}/repos/{_repository(github)}/{path}",
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

    return ask


def _repository(github: GitHub) -> str:
    """`owner/name`, without the numbers that a token's subject may have."""
    return "/".join(part.partition("@")[0] for part in github.repository.split("/"))


if __name__ == "__main__":
    sys.exit(main())
