"""The Markdown table of a survey, and its sums."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.public_pipelines.listing import Pipeline
from benchmarks.public_pipelines.running import ENDED, OWN_FAIL

_LOCAL_MODE = {"Training", "Processing", "Transform", "Model", "Condition", "Fail"}
"""What `sagemaker.local.pipeline` of the SDK carries out; it raises for any other type."""


_UNTRIED: Mapping[str, Any] = {
    "commit": "HEAD",
    "result": "not tried",
    "why": "",
    "steps": (),
    "seconds": 0.0,
}


def table(pipelines: Sequence[Pipeline], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Sums, then a row for each pipeline; one without a result was not tried."""
    told = [(each, rows.get(each.key, _UNTRIED)) for each in pipelines]
    good = [(each, row) for each, row in told if _is_good(row)]
    whole = [each for each, _ in good if not (each.skip or each.command)]
    repositories = {each.repository for each, _ in told}
    reached = {each.repository for each, _ in good}
    free = {each.repository for each, row in told if row["steps"] and not row.get("blockers")}
    counts = Counter(row["result"] for _, row in told)
    by_result = ", ".join(f"{count} {result}" for result, count in counts.most_common())
    local = sum(1 for _, row in told if row["steps"] and _local_mode(row) == "yes")
    lines = [
        f"**{len(good)} of {len(told)}** came to their end or to their own Fail step, {len(whole)} "
        f"of them with every step, in {len(reached)} of {len(repositories)} repositories. All: "
        f"{by_result}. {len(free)} repositories have a pipeline none of whose steps is refused for "
        f"what it is. The SDK's local mode knows every step type of {local}.",
        "",
        *_first_tries(rows.values()),
        "| pipeline | SDK | steps | here | seconds | given or why | SDK's local mode |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_line(each, row) for each, row in told)]) + "\n"


def _first_tries(rows: Collection[Mapping[str, Any]]) -> list[str]:
    """A paragraph on those whose first try is known."""
    firsts = Counter(row["first"] for row in rows if "first" in row)
    if not firsts:
        return []
    now = sum(1 for row in rows if "first" in row and _is_good(row))
    told = ", ".join(f"{count} {result}" for result, count in firsts.most_common())
    return [
        f"First tries are kept of {firsts.total()}, with nothing given but the arguments, "
        f"variables and folder that their programs start with: {told}. With what they ask for, "
        f"{now} of them come to their end now.",
        "",
    ]


def _is_good(row: Mapping[str, Any]) -> bool:
    return row["result"] in {ENDED, OWN_FAIL}


def _local_mode(row: Mapping[str, Any]) -> str:
    unknown = [kind for kind in row["steps"] if kind not in _LOCAL_MODE]
    return "no " + ", ".join(unknown) if unknown else "yes" if row["steps"] else ""


def _line(pipeline: Pipeline, row: Mapping[str, Any]) -> str:
    commit = row["commit"]
    path = pipeline.path.replace(" ", "%20")
    link = f"https://github.com/{pipeline.repository}/blob/{commit}/{path}"
    folder = Path(pipeline.path).parent.name.strip()
    name = Path(pipeline.path).name if folder in {"", "."} else f"{folder}/{Path(path).name}"
    why = pipeline.arranged if _is_good(row) else pipeline.note or _sentence(row["why"])
    cells = [
        f"{pipeline.repository} [{name}]({link}) {commit[:7]}",
        pipeline.sdk,
        ", ".join(row["steps"]),
        row["result"],
        f"{row['seconds']:.0f}" if row["seconds"] else "",
        why,
        _local_mode(row),
    ]
    return "| " + " | ".join(cells) + " |"


def _sentence(text: str) -> str:
    """The first of the reasons, short enough for a table."""
    first = text.split(" | ", maxsplit=1)[0].replace("|", "/").replace("<", "&lt;")
    first = re.sub(r" \(/\S+\)", "", first)  # where a module lies on the machine that surveyed
    return first if len(first) <= 160 else first[:157] + "..."
