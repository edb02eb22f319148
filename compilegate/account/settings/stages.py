"""The stages of one project: `[stages.NAME]` of the settings, each the whole file with changes.

What stands above the stages holds for all of them; a stage changes or adds keys. `from` names the
stage that its models come from. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compilegate.errors import CompilegateError

STAGE_VARIABLE = "COMPILEGATE_STAGE"
"""The environment variable that chooses a stage."""
FROM, STAGES = "from", "stages"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")

Table = dict[str, Any]


class SettingsError(CompilegateError):
    """Settings cannot be used. Each problem is one sentence that names the file and the key."""


def stages_of(path: Path, raw: Mapping[str, Any]) -> dict[str, Table]:
    """The settings of each stage as a file of its own would say them, in the order of the file;
    none where the file has no stages. Raises SettingsError."""
    declared = raw.get(STAGES, {})
    if not isinstance(declared, Mapping) or not all(
        isinstance(table, Mapping) for table in declared.values()
    ):
        raise SettingsError(f"{path}: stages: found no tables, allowed: a table [stages.NAME] each")
    above = {key: value for key, value in raw.items() if key != STAGES}
    merged = {name: _merged(above, table) for name, table in declared.items()}
    problems = [problem for name in merged for problem in _problems(name, merged)]
    if problems:
        raise SettingsError(*(f"{path}: {problem}" for problem in problems))
    return {name: _settled(name, merged) for name in merged}


def _merged(above: Mapping[str, Any], stage: Mapping[str, Any]) -> Table:
    """The stage's keys win; tables are merged key by key."""
    found = dict(above)
    for key, value in stage.items():
        there = found.get(key)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        found[key] = _merged(there, value) if both else value
    return found


def _problems(name: str, merged: Mapping[str, Table]) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield f"stages: found {name!r}, allowed: at most 20 small letters, digits and hyphens"
    table = merged[name]
    if "stages" in table:
        yield f"stages.{name}.stages: found stages in a stage, allowed: stages side by side"
    for missing in ("account", "region"):
        if missing not in table:
            yield (
                f"stages.{name}.{missing} is missing, and must be given: a stage without it would "
                "go wherever the credentials lead"
            )
    source = table.get(FROM)
    if source is not None and (source == name or source not in merged):
        others = ", ".join(other for other in merged if other != name) or "none"
        yield f"stages.{name}.from: found {source!r}, allowed: another stage ({others})"
    for other, theirs in merged.items():
        if other >= name:
            continue
        if _place(theirs) == _place(table):
            yield (
                f"stages.{name}: goes to the same account, region and project as {other}, allowed: "
                "stages that differ in one of the three"
            )


def _place(table: Mapping[str, Any]) -> tuple[Any, ...]:
    return (table.get("account"), table.get("region"), table.get("project", "compilegate"))


def _settled(name: str, merged: Mapping[str, Table]) -> Table:
    """Without `from`: in its place where the models come from, and who takes some from here."""
    table = {key: value for key, value in merged[name].items() if key != FROM}
    source = merged[name].get(FROM)
    if source is not None:
        account, region, project = _place(merged[source])
        table["source"] = {"account": account, "region": region, "project": project}
        bucket = merged[source].get("names", {}).get("bucket")
        if bucket is not None:
            table["source"]["bucket"] = bucket
    readers = [
        other["account"]
        for other in merged.values()
        if other.get(FROM) == name and other["account"] != table["account"]
    ]
    table["readers"] = sorted({*table.get("readers", []), *readers})
    return table
