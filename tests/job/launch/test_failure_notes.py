"""Of several processes that failed, the note of the one whose failure explains the others'."""

from __future__ import annotations

from pathlib import Path

import pytest

from compilegate.job.launch.failure import FailureNote, leave_note, read_note

OWN = FailureNote("out of memory", by_input=False)
LATER = FailureNote("the data are damaged", by_input=True)
LOST = FailureNote("Connection closed by peer", by_input=False, lost_peer=True)
KILLED = FailureNote("training process 1 was killed by SIGABRT", by_input=False, signal=6)


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        ([OWN, LATER], OWN),
        ([OWN, LOST, KILLED], OWN),  # NCCL ends a process by a signal whose peer is gone
        ([LOST, KILLED], KILLED),
        ([LOST, OWN, KILLED], OWN),
        ([LOST, LOST], LOST),
    ],
)
def test_the_first_is_kept_unless_it_only_lost_another_process(
    tmp_path: Path, left: list[FailureNote], kept: FailureNote
) -> None:
    note = tmp_path / "note.json"
    assert all(leave_note(each, {"COMPILEGATE_FAILURE_NOTE": str(note)}) for each in left)
    assert read_note(note) == kept


def test_a_process_alone_leaves_none_and_half_a_note_is_none(tmp_path: Path) -> None:
    assert not leave_note(OWN, {})
    note = tmp_path / "note.json"
    assert read_note(note) is None
    note.write_text('{"reason": "out of')
    assert read_note(note) is None
