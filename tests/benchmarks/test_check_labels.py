"""What the measurement of the check counts as right, wrong and missed, and its labels."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.check.__main__ import Script, measure, read_labels
from compilegate.check.rules import BY_NAME
from compilegate.rules import COMPILERS

SCRIPT = b"""import torch
from torch import nn

model = nn.Linear(2, 1)
torch.compile(model)
for x in torch.randn(3, 1, 2):
    loss = model(x).sum()
    loss.backward()
    print(loss.item())
"""
DISCARDED, SYNC, PRECISION = "compiled-discarded 5", "sync-in-step 9", "full-precision 6"


@pytest.fixture
def label(tmp_path: Path) -> Script:
    """The label of one script of somebody's repository, which lies there."""
    script = tmp_path / "some" / "one" / "train.py"
    script.parent.mkdir(parents=True)
    script.write_bytes(SCRIPT)
    digest = hashlib.sha256(SCRIPT).hexdigest()
    return Script("open", "some/one", "abc", "train.py", digest, "torch-compile", "torch", (), ())


@pytest.mark.parametrize(
    ("due", "allowed", "counted"),
    [
        ((DISCARDED, SYNC), (PRECISION,), (2, 0, 0)),
        ((DISCARDED, SYNC, "orig-mod-keys 7"), (PRECISION,), (2, 0, 1)),
        ((DISCARDED, "sync-in-step 11"), (), (2, 1, 0)),  # some lines off, and one not due
        ((DISCARDED, "sync-in-step 2"), (PRECISION,), (1, 1, 1)),
    ],
)
def test_findings_are_counted_against_labels(
    due: tuple[str, ...],
    allowed: tuple[str, ...],
    counted: tuple[int, int, int],
    label: Script,
    tmp_path: Path,
) -> None:
    counts, mistakes = measure([replace(label, due=due, allowed=allowed)], tmp_path)
    count = counts["torch.compile"]
    assert (count.right, count.wrong, count.missed) == counted
    assert (count.all_clear, len(mistakes)) == (0, counted[1] + counted[2])


def test_another_version_of_a_script_is_refused(label: Script, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="digest"):
        measure([replace(label, digest="0")], tmp_path)


def test_the_labels_name_rules_and_compilers_that_there_are() -> None:
    scripts = read_labels()
    named = {each.split(" ")[0] for script in scripts for each in (*script.due, *script.allowed)}
    assert named <= set(BY_NAME)
    assert {script.compiler for script in scripts} <= set(COMPILERS)
    assert {script.set for script in scripts} == {"open", "sealed"}
