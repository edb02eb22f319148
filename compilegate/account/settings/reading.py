"""From `infra/settings.toml` to checked settings, those of one stage where it has stages.

What stands above `[stages.NAME]` holds for all stages; a stage changes or adds keys, and `from`
names the stage that its models come from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compilegate.access.sharing import CI_DEPLOY
from compilegate.account.settings.declaration import Settings
from compilegate.account.settings.pins import read_pins
from compilegate.declaration_errors import parse_toml, validate
from compilegate.errors import CompilegateError
from compilegate.pipelines.deployment import Network, ProjectNetwork

SETTINGS_FILE = Path("infra") / "settings.toml"
"""Where a project keeps its settings."""
STAGE_VARIABLE = "COMPILEGATE_STAGE"
"""The environment variable that chooses a stage."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")

Table = dict[str, Any]


class SettingsError(CompilegateError):
    """Settings cannot be used. Each problem is one sentence that names the file and the key."""


def read_settings(path: Path) -> Settings:
    """Read and check the settings, and the digests of base images beside them; without a file they
    are the defaults.

    Raises SettingsError with one sentence for each thing that is wrong with them, LockError.
    """
    settings = Settings()
    if path.exists():
        raw = parse_toml(path, SettingsError)
        settings = settings_of(path, raw, os.environ.get(STAGE_VARIABLE))
    pinned = {**read_pins(path), **settings.images.pinned}
    images = settings.images.model_copy(update={"pinned": pinned})
    return settings.model_copy(update={"images": images})


def settings_of(path: Path, raw: Mapping[str, Any], stage: str | None) -> Settings:
    """What a file says for one stage; of a file with stages and without a choice, the first.

    All stages are checked, whichever is chosen. Raises SettingsError.
    """
    tables = stages_of(path, raw)
    if stage and stage not in tables:
        raise SettingsError(
            f"{path}: there is no stage {stage!r}, allowed: {', '.join(tables) or 'none'} "
            f"({STAGE_VARIABLE})"
        )
    if not tables:
        rest = {key: value for key, value in raw.items() if key != "stages"}
        return validate(path, rest, Settings, SettingsError)
    found = {
        name: validate(f"{path}, stage {name}", table, Settings, SettingsError)
        for name, table in tables.items()
    }
    return found[stage or next(iter(tables))]


def stages_of(path: Path, raw: Mapping[str, Any]) -> dict[str, Table]:
    """The settings of each stage as a file of its own would say them, in the order of the file;
    none where the file has no stages. Raises SettingsError."""
    declared = raw.get("stages", {})
    if not isinstance(declared, Mapping) or not all(
        isinstance(table, Mapping) for table in declared.values()
    ):
        raise SettingsError(f"{path}: stages: found no tables, allowed: a table [stages.NAME] each")
    above = {key: value for key, value in raw.items() if key != "stages"}
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
    source = table.get("from")
    if source is not None and (source == name or source not in merged):
        others = ", ".join(other for other in merged if other != name) or "none"
        yield f"stages.{name}.from: found {source!r}, allowed: another stage ({others})"
    for other, theirs in merged.items():
        (account, _, project), (its_account, _, its_project) = _place(theirs), _place(table)
        if account and other < name and (account, project) == (its_account, its_project):
            yield (
                f"stages.{name}: goes to the same account and project as {other}, expected stages "
                "that differ in one of the two: roles and policies have their names in all regions"
            )


def _place(table: Mapping[str, Any]) -> tuple[Any, ...]:
    return (table.get("account"), table.get("region"), table.get("project", "compilegate"))


def _settled(name: str, merged: Mapping[str, Table]) -> Table:
    """Without `from`: in its place where the models come from, and who takes some from here."""
    table = {key: value for key, value in merged[name].items() if key != "from"}
    before = merged[name].get("from")
    if before is not None:
        account, region, project = _place(merged[before])
        names = merged[before].get("names", {})
        named = {key: names[key] for key in ("bucket", "repository_prefix") if key in names}
        if "bucket" in (storage := merged[before].get("storage", {})):
            named["bucket"] = storage["bucket"]
        table["source"] = {"account": account, "region": region, "project": project, **named}
    readers = []
    for other in merged.values():
        account, _, project = _place(other)
        if other.get("from") == name and account != table["account"]:
            # A pattern: the role need not be there yet, and the partition is not known here.
            path = other.get("names", {}).get("path", "/")
            readers.append(f"arn:*:iam::{account}:role{path}{project}{CI_DEPLOY}")
    table["readers"] = sorted({*table.get("readers", []), *readers})
    return table


def network_of(settings: Settings, made: ProjectNetwork | None = None) -> Network | None:
    """Where a deployment's jobs run; None for SageMaker's own network, open to the internet.

    `made` is the VPC that `network.create` has made, or what stands for it; without one its jobs
    are in none.
    """
    declared = settings.network
    subnets, groups = declared.subnets, declared.security_groups
    if declared.create and made is not None:
        subnets, groups = list(made.subnets), [made.security_group]
    if not subnets and not declared.isolation:
        return None
    return Network(subnets=subnets, security_group_ids=groups, isolation=declared.isolation)
