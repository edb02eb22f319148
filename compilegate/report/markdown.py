"""The report as Markdown: the summary, and everything else as sections and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from compilegate.gate.observations import Observations
from compilegate.gate.verdict import Verdict
from compilegate.report import formats
from compilegate.report.details import Block, Link, Point, Table, sections
from compilegate.report.summary import (
    About,
    Cell,
    arm_summaries,
    facts_of_verdict,
    registered,
    summary_table,
)

_SPECIAL = "\\`*_{}[]<>#|!~&$"


def render_markdown(
    verdict: Verdict, observations: Observations, about: About | None = None
) -> str:
    """The whole report. Everything that comes from outside is escaped."""
    label, model = registered(verdict, () if about is None else about.models)
    blocks = [
        f"# {escaped(verdict.workload)}",
        f"**{escaped(verdict.decision.sentence)}**",
        f"{label}: {escaped(model)}.",
    ]
    if observations.left_out:
        names = ", ".join(map(escaped, observations.left_out))
        blocks.append(f"Arms left out of this execution and not judged: {names}.")
    if verdict.candidates:
        blocks.append(_summary(verdict))
    refused = (each for each in arm_summaries(verdict) if each.remedies)
    advice = [f"- {escaped(each.arm)}: {_with_code(each.remedies[0])}" for each in refused]
    if advice:
        blocks += ["## What to do", "\n".join(advice)]
    for title, content in sections(verdict, observations):
        blocks += [f"## {escaped(title)}", *map(_block, content)]
    facts = facts_of_verdict(verdict, observations, about)
    lines = (f"- {name}: {escaped(value)}" for name, value in facts)
    blocks += ["## This execution", "\n".join(lines)]
    return "\n\n".join(blocks) + "\n"


def _summary(verdict: Verdict) -> str:
    header = ("", *(escaped(candidate.arm) for candidate in verdict.candidates))
    outcomes = [candidate.outcome for candidate in verdict.candidates]
    verdicts = ("**Verdict**", *(f"**{formats.MARKS[it]} {it}**" for it in outcomes))
    lines = ((escaped(name), *map(_cell, cells)) for name, cells in summary_table(verdict))
    return table(header, (verdicts, *lines))


def _cell(cell: Cell) -> str:
    mark = "" if cell.outcome is None else f"{formats.MARKS[cell.outcome]} "
    return f"{mark}{escaped(cell.value)}" + (f" ({escaped(cell.bounds)})" if cell.bounds else "")


def _block(block: Block) -> str:
    if isinstance(block, str):
        return escaped(block)
    if isinstance(block, Link):
        return f"[{block.text}]({quote(block.target)}): {escaped(block.target)}"
    if isinstance(block, Table):
        return table(map(escaped, block.header), (map(escaped, row) for row in block.rows))
    return "\n".join(map(_point, block))


def _point(point: Point) -> str:
    outcome = f"{point.outcome}: " if point.outcome else ""
    return f"- {outcome}{escaped(point.text)}" + (f" (`{point.code}`)" if point.code else "")


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table whose cells are escaped already."""
    columns: Sequence[str] = list(header)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def escaped(content: str) -> str:
    """Foreign text on one line, with what Markdown or HTML would interpret escaped."""
    flat = " ".join(content.split())
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in flat)


def _with_code(sentence: str) -> str:
    """Escaped, but for what stands between backticks."""
    parts = re.split(r" ?(`[^`]+`)", sentence)
    return " ".join(it if it.startswith("`") else escaped(it) for it in parts if it)
