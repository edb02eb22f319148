"""What the measurement of the check counts as right, wrong and missed, and its labels."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.check import __main__ as program
from compilegate.rules import table

SCRIPT = """import torch
model = torch.nn.Linear(2, 1)
torch.compile(model)
for inputs in loader:
    loss = model(inputs.cuda()).mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def labelled(due: tuple[str, ...], allowed: tuple[str, ...] = (), text: str = SCRIPT):
    digest = hashlib.sha256(text.encode()).hexdigest()
    row = ("open", "some/one", "abc", "train.py", digest, "torch-compile", "torch")
    return program.Script(*row, due, allowed)


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """A folder with one script of somebody's repository."""
    script = tmp_path / "some" / "one" / "train.py"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("due", "allowed", "counted"),
    [
        (("compiled-discarded 3", "sync-in-step 8"), ("full-precision 4",), (2, 0, 0)),
        (("compiled-discarded 3", "orig-mod-keys 9"), ("full-precision 4",), (1, 1, 1)),
        ((), ("compiled-discarded 3", "full-precision 4"), (0, 1, 0)),
        (("compiled-discarded 1", "sync-in-step 8", "full-precision 8"), (), (2, 1, 1)),
    ],
)
def test_findings_are_counted_against_labels(
    due: tuple[str, ...], allowed: tuple[str, ...], counted: tuple[int, int, int], clones: Path
) -> None:
    counts, mistakes = program.measure([labelled(due, allowed)], clones)
    found = counts["torch.compile"]
    assert (found.right, found.wrong, found.missed) == counted
    assert len(mistakes) == counted[1] + counted[2]
    assert program.rows(counts)[-1][2:5] == [str(each) for each in counted]


def test_a_script_of_another_digest_is_refused(clones: Path) -> None:
    with pytest.raises(SystemExit):
        program.measure([labelled((), text="x = 1\n")], clones)


def test_the_labels_are_complete() -> None:
    scripts = program.read_labels()
    assert {each.set for each in scripts} == {"open", "sealed"}
    assert min(Counter(each.set for each in scripts).values()) >= 30
    assert len({(each.repository, each.path) for each in scripts}) == len(scripts)
    assert Counter(each.route for each in scripts)["XLA, Training Compiler"] >= 15
    for each in scripts:
        assert re.fullmatch(r"[0-9a-f]{64}", each.digest)
        assert re.fullmatch(r"[0-9a-f]{40}", each.commit)
        labels = [label.split() for label in (*each.due, *each.allowed)]
        assert {rule for rule, _ in labels} <= set(table().rules)
        assert all(each.compiler in table().rules[rule].compilers for rule, _ in labels)
