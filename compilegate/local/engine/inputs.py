"""Which inputs will be there when their steps start, as far as can be known before any does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.document.evaluation import Unresolved
from compilegate.document.graph import StepGraph
from compilegate.document.step_types import TRAINING
from compilegate.local.errors import ObjectStoreError
from compilegate.local.home.object_store import ObjectStore

_PLACE = re.compile(r"s3://[^\s\"',;]+")


@dataclass(frozen=True)
class Needs:
    """What a step reads and writes."""

    step: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: Mapping[str, Any]
    """The whole request: a program may put objects where its arguments say."""


def input_faults(
    steps: Iterable[Needs], graph: StepGraph, store: ObjectStore, later: Collection[str]
) -> Iterator[str]:
    """One sentence for each object that is neither there nor made by a step that comes before.

    `later` are places where a program puts objects while it runs, as the user says.
    """
    by_name = {needs.step: needs for needs in steps}
    for needs in by_name.values():
        before = [by_name[name] for name in _before(graph, needs.step) if name in by_name]
        for uri in dict.fromkeys(needs.inputs):
            if isinstance(uri, Unresolved) or any(_overlap(uri, place) for place in later):
                continue
            try:
                there = store.has_objects(uri)
            except ObjectStoreError as error:
                yield f"{needs.step}: {error}"
                continue
            if there or any(_makes(other, uri) or _speaks_of(other, uri) for other in before):
                continue
            yield f"{needs.step}: {uri} {_absent(uri, needs, by_name, store)}"


def _absent(uri: str, needs: Needs, steps: Mapping[str, Needs], store: ObjectStore) -> str:
    maker = next((s for s in steps.values() if s is not needs and _makes(s, uri)), None)
    if maker is not None:
        return (
            f"is not in the local store: {maker.step} makes it, but need not have ended when "
            f"{needs.step} starts; let {needs.step} depend on it (DependsOn)"
        )
    return (
        "is not in the local store and no step before it makes it; put its files at "
        f"{store.path(uri)}, or say where they are: --data {uri}=FOLDER (=later if a program puts "
        "them there while it runs)"
    )


def _before(graph: StepGraph, name: str) -> set[str]:
    """The steps that have ended when this one starts."""
    found: set[str] = set()
    pending = list(graph.parents(name)) if name in graph.steps else []
    while pending:
        parent = pending.pop()
        if parent not in found and parent in graph.steps:
            found.add(parent)
            pending.extend(graph.parents(parent))
    return found


def _makes(needs: Needs, uri: str) -> bool:
    for prefix in needs.outputs:
        if isinstance(prefix, Unresolved):
            continue
        # A training job writes below its own name, which nobody can know before.
        if _begins(prefix, uri) or (needs.type != TRAINING and _within(uri, prefix)):
            return True
    return False


def _speaks_of(needs: Needs, uri: str) -> bool:
    """Whether the step's own arguments, variables or hyperparameters name the place of `uri`."""
    bucket = re.escape(uri.removeprefix("s3://").partition("/")[0])
    word = re.compile(rf"(?<![\w.\-/]){bucket}(?![\w.\-])")
    for text in _own_texts(needs.arguments):
        places = _PLACE.findall(text)
        if any(_overlap(uri, place) for place in places):
            return True
        if not places and word.search(text):
            return True
    return False


def places_in(value: Any) -> Iterator[str]:
    """Every URI of S3 in the texts of a document."""
    for text in _texts(value):
        yield from _PLACE.findall(text)


def _own_texts(arguments: Mapping[str, Any]) -> Iterator[str]:
    application = arguments.get("AppSpecification") or {}
    algorithm = arguments.get("AlgorithmSpecification") or {}
    for section in (application, algorithm):
        if isinstance(section, Mapping):
            yield from _texts(section.get("ContainerArguments"))
            yield from _texts(section.get("ContainerEntrypoint"))
    yield from _texts(arguments.get("Environment"))
    own = arguments.get("HyperParameters")
    if isinstance(own, Mapping):  # what the toolkit reads names sources, not results
        yield from _texts({k: v for k, v in own.items() if not str(k).startswith("sagemaker_")})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _begins(key: str, uri: str) -> bool:
    """Whether an input's URI, which is the beginning of a key, stands for this one."""
    return _within(key, uri) if uri.endswith("/") else key.startswith(uri)


def _overlap(uri: str, prefix: str) -> bool:
    return _within(uri, prefix) or _within(prefix, uri)


def _within(uri: str, prefix: str) -> bool:
    return f"{uri.rstrip('/')}/".startswith(f"{prefix.rstrip('/')}/")
