"""What each role must be able to do and what it must not: the questions of permissions.toml."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compilegate.infra.bootstrap import execution_role, policies
from tests.infra.access.engine import (
    ARNS_HERE,
    Question,
    Who,
    answers,
    document,
    endpoint,
    names_of,
    role,
)
from tests.infra.assembly import ACCOUNT, REGION, Assembly

pytestmark = pytest.mark.slow

TABLE = tomllib.loads(Path(__file__).with_name("permissions.toml").read_text())
EXECUTION_ROLE = execution_role(ARNS_HERE, names_of("compilegate").qualifier)


@pytest.fixture(scope="module")
def answered(assembly: Assembly) -> Mapping[str, Mapping[str, list[str]]]:
    """By name: what a role may not, of what it must be able to, and may, of what it must not."""
    names = {"QUALIFIER": names_of("compilegate").qualifier}
    names |= {name: assembly.one(*at.split()).arn for name, at in TABLE["resources"].items()}
    for name, text in TABLE["names"].items():
        names[name] = text.format_map(names)
    questions = [
        (name, kind, question)
        for name, entry in TABLE["ask"].items()
        for who in _who(assembly, entry, names)
        for kind in ("may", "may_not")
        # What is not allowed is not allowed by its own policy, whatever its boundary says.
        for question in _questions(
            who if kind == "may" else replace(who, boundary=None), entry.get(kind, []), names
        )
    ]
    wrong: dict[str, dict[str, list[str]]] = {
        name: {"may": [], "may_not": []} for name in TABLE["ask"]
    }
    given = answers(assembly, [question for *_, question in questions])
    for (name, kind, question), allowed in zip(questions, given, strict=True):
        if allowed is (kind == "may_not"):
            wrong[name][kind].append(str(question))
    return wrong


def _questions(who: Who, lines: list[str], names: Mapping[str, str]) -> Iterator[Question]:
    """Every action of a line on every resource in every context."""
    for line in lines:
        about, _, contexts = line.format_map(names).partition(" if ")
        (actions, *resources) = about.split()
        service, _, verbs = actions.partition(":")
        for context in contexts.split() or [""]:
            parts = [TABLE["contexts"].get(part, part) for part in context.split("+") if part]
            keys = dict(part.split("=") for part in parts)
            for resource in resources:
                for verb in verbs.split(","):
                    yield Question(who, f"{service}:{verb}", resource, keys)


def _who(assembly: Assembly, entry: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[Who]:
    match entry:
        case {"role": at}:
            yield role(assembly, *at.split())
        case {"bootstrap": parts}:
            settings = {
                table: {
                    key: value.format_map(names) if isinstance(value, str) else value
                    for key, value in keys.items()
                }
                for table, keys in entry.get("settings", {}).items()
            }
            project = names_of("compilegate", **settings)
            made = policies(ARNS_HERE, project)
            own = [made[f"compilegate-{part}"] for part in parts]
            yield Who(EXECUTION_ROLE, own, made[project.bootstrap_policy])
        case {"endpoints": services}:
            yield from (endpoint(assembly, service) for service in services)
        case {"promoting": arns}:
            # The neighbour as if it were in another account, and its stage before in this one.
            before = "111111111111"
            source = {"account": before, "region": REGION, "project": "walled"}
            there = {ACCOUNT: "222222222222", before: ACCOUNT}
            promoting = role(assembly, "neighbour-ci", "DeployRole", source=source)
            text = json.dumps([promoting.policies, promoting.boundary])
            moved = re.sub("|".join(there), lambda found: there[found[0]], text)
            yield from (Who(arn, *json.loads(moved)) for arn in arns)
        case {"everything": arn}:
            yield Who(arn, [document({"Action": "*", "Resource": "*"})])


@pytest.mark.parametrize("name", TABLE["ask"])
def test_a_role_can_do_what_it_is_for_and_nothing_else(
    name: str, answered: Mapping[str, Mapping[str, list[str]]]
) -> None:
    assert answered[name] == {"may": [], "may_not": []}


def test_every_kind_of_role_is_in_the_table(assembly: Assembly) -> None:
    there = {
        found.logical_id[:-8]
        for found in assembly.all_resources("AWS::IAM::Role")
        if found.stack.startswith(("compilegate-", "neighbour-"))
    }
    assert {entry["role"].split()[1] for entry in TABLE["ask"].values() if "role" in entry} == there
