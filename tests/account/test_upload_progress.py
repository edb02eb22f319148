"""What is said of an upload that takes its time."""

from __future__ import annotations

from itertools import count

from compilegate.account.object_store import TELL_SECONDS, UploadProgress


def test_a_long_upload_says_now_and_then_how_far_it_is() -> None:
    told: list[str] = []
    seconds = count(step=TELL_SECONDS / 4)
    progress = UploadProgress("train.csv", 1000, told.append, clock=lambda: next(seconds))
    for _ in range(10):
        progress(100)
    assert told == ["train.csv: 40% written", "train.csv: 80% written"]


def test_a_short_one_is_not_talked_about() -> None:
    told: list[str] = []
    UploadProgress("train.csv", 1000, told.append, clock=lambda: 0.0)(1000)
    assert told == []
