"""`make release` in a clone: what it makes, and what it refuses without changing anything."""

from __future__ import annotations

import re

import pytest

from tests.shipped.clone import Place, clone_at

pytestmark = [pytest.mark.slow, pytest.mark.long]

IDENTITY = "-c user.name=Tester -c user.email=tester@example.com"
RELEASE = "python -m tools.release"
ENTRY = "## [Unreleased]\n\n- A change for users.\n"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = clone_at(tmp_path_factory.mktemp("release") / "compilegate")
    changelog = place.folder / "CHANGELOG.md"
    rest = changelog.read_text(encoding="utf-8").partition("## [Unreleased]\n")[0]
    changelog.write_text(rest + ENTRY, encoding="utf-8")
    place.run("rm .venv node_modules && git init --quiet --initial-branch main && git add --all")
    place.run(f"git {IDENTITY} commit --quiet --message Begin")
    place.run("git config user.name Tester && git config user.email tester@example.com")
    return place


@pytest.mark.parametrize(
    ("version", "before", "sentence"),
    [
        ("1.2", "true", "expected three numbers"),
        ("0.0.1", "true", "or more"),
        ("9.0.0", "echo >> README.md", "README.md"),
        ("9.0.0", "git tag v9.0.0", "The tag v9.0.0 exists"),
        ("9.0.0", "sed -i '/^- A change/d' CHANGELOG.md && git commit -qam Empty", "no entry"),
    ],
)
def test_it_refuses_and_changes_nothing(
    clone: Place, version: str, before: str, sentence: str
) -> None:
    head = clone.run("git rev-parse HEAD").strip()
    printed = clone.run(f"{before}; {RELEASE} {version} || [ $? = 2 ]")
    assert sentence in printed
    assert "tagged" not in printed
    clone.run(f"git reset --quiet --hard {head}; git tag -d v9.0.0 >/dev/null 2>&1 || true")
    assert not (clone.folder / "dist").exists()


def test_it_dates_the_entry_sets_the_version_builds_and_tags(clone: Place) -> None:
    assert "v9.1.0 is tagged" in clone.run(f"{RELEASE} 9.1.0")
    assert (clone.folder / "dist" / "compilegate-9.1.0-py3-none-any.whl").is_file()
    shown = clone.run("git show v9.1.0:CHANGELOG.md v9.1.0:pyproject.toml")
    entry = r"## \[Unreleased\]\n\n## \[9\.1\.0\] - \d{4}-\d\d-\d\d\n\n- A change for users\."
    assert re.search(entry, shown)
    assert 'version = "9.1.0"' in shown
    assert clone.run("git status --porcelain") == ""
    assert "Release 9.1.0" in clone.run("git log -1 --format=%s")
    assert "expected 9.1.0 or more" in clone.run(f"{RELEASE} 9.0.9 || [ $? = 2 ]")
