"""What is caught in a script's output, and what is said of numbers that cannot be the metric."""

from __future__ import annotations

import pytest

from compilegate.job.launch.scripts import printed_metrics
from compilegate.job.launch.scripts.printed_metrics import Lines, PrintedMetrics


@pytest.mark.parametrize(
    ("name", "percent", "line", "fault"),
    [
        ("accuracy", "", b"v=0.95", None),
        ("accuracy", "", b"v=1.0000001", None),  # a rounding error
        ("bleu", "", b"v=27.4", None),
        ("perplexity", "", b"v=18.2", None),
        ("accuracy", "accuracy", b"v=95.2", None),
        ("accuracy", "", b"v=nan", None),  # which the gate refuses with its own reason
        ("eval_f1", "", b"v=1.5", "eval_f1 was printed as 1.5 (in the line 'v=1.5'), expected a"),
        ("top-5/accuracy", "", b"v=80", "put percent = ['top-5/accuracy'] into [program] if it"),
        ("accuracy", "", b"v=9529", "expected a fraction of 1 at most: let the expression of prog"),
        ("auc", "auc", b"v=400", "expected 100 at most, since program.percent names it: let the"),
    ],
)
def test_a_fraction_is_at_most_one(name: str, percent: str, line: bytes, fault: str | None) -> None:
    told = {f"COMPILEGATE_PRINTED_{name}": r"v=(\S+)", "COMPILEGATE_PERCENT": percent}
    metrics = PrintedMetrics.declared(told)
    assert metrics is not None
    metrics.read(line)
    assert (metrics.fault is None) == (fault is None)
    assert (fault or "") in (metrics.fault or "")


def test_a_script_that_prints_without_end_is_heard_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printed_metrics, "MOST_VALUES", 200)
    metrics = PrintedMetrics({"speed": r"(\d+)"})
    lines = Lines(metrics)
    for number in range(5000):
        lines.feed(b"%d\n" % number)
    assert metrics.values == {"speed": 4999.0}
    course = metrics.course["speed"]
    assert (len(course), course[0], course[-1]) == (50, 0.0, 4999.0)
    assert list(course) == sorted(course)
    kept = metrics.series["speed"]
    assert len(kept) <= 200
    assert kept[:100] == [float(number) for number in range(100)]
    assert kept == sorted(kept)
