"""Rows for people and programs: cells, CSV, JSON, a page. Pure."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
from collections.abc import Sequence

from compilegate.gate.verdict import Interval
from compilegate.history.rows import Line, Measured, Row

COLUMNS = (
    *("STARTED", "EXECUTION", "POSTURE", "TRAINED", "REGISTERED", "OUTCOME"),
    *("METRICS (DELTA)", "SPEED-UP", "HOURS", "USD", "CHANGES"),
)
PORTFOLIO = (
    *("WORKLOAD", "EXECUTIONS", "LAST", "POSTURE", "REGISTERED", "SINCE", "SPEED-UP"),
    *("HOURS", "USD"),
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1c2330; background: #fff }}
table {{ border-collapse: collapse }}
th, td {{ text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #d8dde6 }}
tr.change td {{ border-top: 2px solid #b4530a }}
td:last-child {{ color: #8a3d05 }}
@media (prefers-color-scheme: dark) {{
 body {{ color: #e4e8ef; background: #14181f }} th, td {{ border-color: #333b48 }}
 td:last-child {{ color: #f0a868 }} }}
</style></head><body><h1>{title}</h1><p>{told}</p><table><thead><tr>{head}</tr></thead>
<tbody>{body}</tbody></table></body></html>
"""


def row_cells(row: Row) -> tuple[str, ...]:
    """A row for a table; `-` where nothing is known."""
    return (
        row.started[:16].replace("T", " "),
        row.execution,
        row.posture or "-",
        row.trained,
        row.registered or "none",
        f"{row.arm} {row.outcome}".strip() or "-",
        ", ".join(_metric(one) for one in row.metrics) or "-",
        _speedup(row.speedup),
        _hours(row.seconds),
        _dollars(row.usd),
        "; ".join(row.changes) or "-",
    )


def line_cells(line: Line) -> tuple[str, ...]:
    """A workload for the portfolio's table."""
    return (
        line.workload,
        str(line.executions),
        line.last[:10],
        line.posture or "-",
        line.registered or "none",
        line.since[:10] or "-",
        _speedup(line.speedup),
        _hours(line.seconds),
        _dollars(line.usd),
    )


def _metric(one: Measured) -> str:
    if one.delta is None:
        return f"{one.metric} {one.value:.4g}"
    delta = one.delta
    return (
        f"{one.metric} {one.value:.4g} ({delta.estimate:+.2g}, {delta.lower:+.2g} to "
        f"{delta.upper:+.2g})"
    )


def _speedup(found: Interval | None) -> str:
    if found is None:
        return "-"
    return f"{found.estimate:.2f} ({found.lower:.2f} to {found.upper:.2f})"


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:.2f}"


def _dollars(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:.2f}"


def as_json(rows: Sequence[Row | Line]) -> str:
    """All that is known, with full precision."""
    return json.dumps([dataclasses.asdict(row) for row in rows], indent=2)


def as_csv(rows: Sequence[Row]) -> str:
    """A line for each execution and metric, and one for an execution without any."""
    out = io.StringIO()
    names = (
        *("execution", "started", "status", "posture", "trained", "registered", "arm", "outcome"),
        *("metric", "value", "baseline", "delta", "delta_lower", "delta_upper"),
        *("speedup", "speedup_lower", "speedup_upper", "seconds", "usd", "changes"),
    )
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        for one in row.metrics or (None,):
            measured = (
                ("",) * 6
                if one is None
                else (one.metric, one.value, _text(one.baseline), *_interval(one.delta))
            )
            writer.writerow(
                (
                    *(row.execution, row.started, row.status, row.posture, row.trained),
                    *(row.registered, row.arm, row.outcome, *measured),
                    *(*_interval(row.speedup), _text(row.seconds), _text(row.usd)),
                    "; ".join(row.changes),
                )
            )
    return out.getvalue()


def _interval(found: Interval | None) -> tuple[object, object, object]:
    return ("", "", "") if found is None else (found.estimate, found.lower, found.upper)


def _text(value: float | None) -> object:
    return "" if value is None else value


def as_page(title: str, rows: Sequence[Row]) -> str:
    """One file of HTML, without anything from elsewhere. Change points have a line above them."""
    changed = sum(bool(row.changes) for row in rows)
    executions = f"{len(rows)} execution{'' if len(rows) == 1 else 's'}"
    body = "".join(
        f"<tr{' class=change' if row.changes else ''}>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row_cells(row))
        + "</tr>\n"
        for row in rows
    )
    return _PAGE.format(
        title=html.escape(title),
        told=f"{executions}, {changed} of them with a change.",
        head="".join(f"<th>{name.capitalize()}</th>" for name in COLUMNS),
        body=body,
    )
