"""Release a version: date its changelog entry, set the version, build the wheel, commit, tag.

    .venv/bin/python tools/release.py 0.2.0

Nothing is pushed. Refused: a version below the present one, changes that are not
committed, a tag that exists, a changelog with nothing under "Unreleased".
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT, CHANGELOG = "pyproject.toml", "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_DECLARED = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)


class ReleaseError(Exception):
    """The release is refused, in one sentence; nothing was changed."""


def release(root: Path, version: str, date: str) -> Path:
    """Make the release in the repository at `root`, and return its wheel. Raises ReleaseError."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in (PROJECT, CHANGELOG)}
    _check(root, version, texts)
    project = _DECLARED.sub(f'version = "{version}"', texts[PROJECT], count=1)
    entry = f"{UNRELEASED}\n## [{version}] - {date}\n"
    changelog = texts[CHANGELOG].replace(UNRELEASED, entry, 1)
    try:
        _write(root, {PROJECT: project, CHANGELOG: changelog})
        build = ("hatchling", "build", "--target", "wheel", "--directory", "dist")
        _run(root, sys.executable, "-m", *build)
    except BaseException:
        _write(root, texts)
        raise
    _run(root, "git", "commit", "--quiet", "--message", f"Release {version}", PROJECT, CHANGELOG)
    _run(root, "git", "tag", "--annotate", f"v{version}", "--message", f"Compilegate {version}")
    return root / "dist" / f"compilegate-{version}-py3-none-any.whl"


def _check(root: Path, version: str, texts: Mapping[str, str]) -> None:
    declared = _DECLARED.search(texts[PROJECT])
    present = declared[1] if declared is not None else ""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"VERSION is {version!r}, expected three numbers such as 0.2.0.")
    if _numbers(version) < _numbers(present):
        raise ReleaseError(f"VERSION is {version}, expected {present} or more.")
    changed = _run(root, "git", "status", "--porcelain")
    if changed:
        raise ReleaseError(f"Commit or remove these changes first:\n{changed.rstrip()}")
    if _run(root, "git", "tag", "--list", f"v{version}"):
        raise ReleaseError(f"The tag v{version} exists.")
    unreleased = texts[CHANGELOG].partition(UNRELEASED)[2].partition("\n## [")[0]
    if "\n- " not in f"\n{unreleased}":
        raise ReleaseError(f"{CHANGELOG} has no entry under {UNRELEASED.strip()!r}.")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _write(root: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")


def _run(root: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Release the version that the arguments name; 2 if it is refused."""
    if len(arguments) != 1:
        print("usage: make release VERSION=X.Y.Z", file=sys.stderr)
        return 2
    try:
        wheel = release(ROOT, arguments[0], f"{datetime.now(UTC):%Y-%m-%d}")
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{wheel.relative_to(ROOT)} is built, v{arguments[0]} is tagged. To publish them:")
    print("  git push --follow-tags")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
