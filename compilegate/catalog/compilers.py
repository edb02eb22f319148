"""The compilers, from `facts/NAME.toml`: what each can do, and who maintains it.

An empty or absent list restricts nothing, except `distributions`: this project supports the listed
ones alone. Pure.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from compilegate.catalog.images import BaseImage, find_image
from compilegate.catalog.instances import (
    Processor,
    accelerator_of,
    instance_class,
    processor_of,
)
from compilegate.catalog.tables import landscape
from compilegate.execution.status import Target
from compilegate.job.compilers import declarations

Distribution = Literal["pytorchxla", "sm_dist", "in the script"]


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Framework versions that go together in one image of AWS."""

    framework: str
    version: str
    transformers: str | None = None
    """The version in a Hugging Face image; None in an image that brings none."""
    image_framework: str
    """What the catalog of images calls its framework."""
    distribution: Distribution | None = None
    """What a job on more than one accelerator takes; `sm_dist` is a launcher script in front of the
    training script, `in the script` is TensorFlow's own strategy. None where one process is all."""
    extendable: bool = False
    """Whether AWS lists the image as one that may be extended."""

    @property
    def versions(self) -> tuple[str, str, str | None]:
        return self.framework, self.version, self.transformers

    @property
    def label(self) -> str:
        transformers = f" with Transformers {self.transformers}" if self.transformers else ""
        return f"{self.framework} {self.version}{transformers}"

    @property
    def image(self) -> BaseImage:
        """The image that holds it, with its URI in each region."""
        processor = "neuron" if "neuron" in self.image_framework else "gpu"
        names = (self.image_framework, self.version)
        return find_image(*names, transformers=self.transformers, processor=processor)


@dataclass(frozen=True, kw_only=True)
class Compiling:
    """How long a compiler works before it trains, and which jobs repay that."""

    seconds: tuple[int, int]
    """From, to; usually."""
    repaid_seconds: int
    """The shortest job that gains, by its maker's word."""


SOON = datetime.timedelta(days=365)
"""An end nearer than this is reported: a workload is retrained for years."""


class End(NamedTuple):
    """The end of something that was maintained, in words."""

    reason: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """How long something is maintained, as far as its makers say."""

    what: str | None = None
    """What it is called, where that is less than what the catalog names."""
    by: str
    status: Literal["maintained", "ending", "ended"]
    until: datetime.date | None = None
    """The last day; None where no day was found, whatever the status."""
    says: str | None = None
    """What is known of it, in a clause."""
    instead: str | None = None
    """What to do instead, in a clause; None while it is maintained."""
    source: str
    date: datetime.date
    """When the source was read."""

    def end(self, title: str, today: datetime.date) -> End | None:
        """Why not to begin with it today; None while there is nothing to say."""
        if self.status == "maintained":
            return None
        if self.status == "ending" and self.until is not None and self.until - today > SOON:
            return None
        over = self.status == "ended" or (self.until is not None and self.until < today)
        day = f" {'since' if over else 'on'} {self.until}" if self.until else ""
        state = "is no longer maintained" if over else "is about to end"
        what = f": {self.says}" if self.says else ""
        source = f"{self.source}, read {self.date}"
        reason = f"{self.what or title} {state}{day} ({self.by}){what} ({source})"
        return End(reason, self.instead or "plan for another")


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """What one compiler can do."""

    name: str
    title: str
    frameworks: tuple[str, ...]
    oldest: str | None = None
    """The first framework version that works; None without such a bound."""
    newest: str | None = None
    """The last one; None without such a bound."""
    stacks: tuple[Stack, ...] = ()
    """The only framework versions there are."""
    processors: tuple[Processor, ...]
    instance_classes: tuple[str, ...] = ()
    """The only classes of instances."""
    efa_instances: tuple[str, ...] = ()
    """Those whose network is fast between instances; none listed where AWS does not say."""
    distributions: tuple[str, ...]
    """How a job may be spread over several accelerators."""
    precisions: tuple[str, ...]
    untested_precisions: tuple[str, ...] = ()
    """May work; its maker never tested them."""
    tested_models: bool = False
    """Whether its maker publishes which models it was tested with."""
    compiling: Compiling | None = None
    """How long it compiles; None where its maker does not say."""
    absent_in: tuple[str, ...] = ()
    """Regions without it, though they may have the image."""
    targets: tuple[Target, ...]
    """Where it runs."""
    instead: Mapping[Processor, str] = field(default_factory=dict)
    """What to do on a processor that it does not compile for."""
    maintained: Maintenance
    backends: Mapping[str, Compiler] = field(default_factory=dict)
    """The same with one of its backends, by name; only those that the catalog knows."""

    def stack(self, framework: str, version: str | None, transformers: str | None) -> Stack | None:
        """The stack of exactly these versions."""
        wanted = (framework, version, transformers)
        return next((it for it in self.stacks if it.versions == wanted), None)


@cache
def compilers() -> dict[str, Compiler]:
    """Every compiler, by name."""
    read = TypeAdapter(Compiler).validate_python
    return {name: read({"name": name, **_facts(name)}) for name in declarations()}


def _facts(name: str) -> dict[str, Any]:
    """The file of a compiler, in which a backend says what differs from the others."""
    file = "torch-compile.toml" if name == "inductor" else f"{name}.toml"  # its default backend
    text = files("compilegate.job.compilers").joinpath("facts", file).read_text(encoding="utf-8")
    facts = tomllib.loads(text)
    shared = {"name": name, **facts, "backends": {}}
    backends = facts.get("backends", {}).items()
    return {**facts, "backends": {backend: {**shared, **changes} for backend, changes in backends}}


@dataclass(frozen=True, kw_only=True)
class Graphless:
    """A framework that has no graph to compile."""

    framework: str
    module: str
    """What a script imports of it."""
    why: str
    instead: str
    """What makes it faster instead."""


@cache
def graphless() -> Mapping[str, Graphless]:
    """The frameworks that cannot be compiled, by name."""
    found = TypeAdapter(tuple[Graphless, ...]).validate_python(landscape()["graphless"])
    return {each.framework: each for each in found}


def graphless_module(libraries: frozenset[str]) -> Graphless | None:
    """The framework without a graph that a script imports, if it imports none that has one."""
    if libraries & set(landscape()["modules_with_a_graph"]):
        return None
    return next((each for each in graphless().values() if each.module in libraries), None)


@cache
def service(name: str) -> Maintenance:
    """How long a service of AWS's is to be had: `profiler`, `debugger`."""
    return TypeAdapter(Maintenance).validate_python(landscape()["services"][name])


def library_obstacle(library: str, framework: str | None, instance_type: str) -> str | None:
    """Why a library such as `smddp` is of no use with a framework on an instance, in a clause; None
    where it may be. A framework that is not known is no obstacle."""
    accelerator, wanted = accelerator_of(instance_type), landscape()["libraries"][library]
    for what, found in (
        ("frameworks", framework),
        ("processors", processor_of(instance_type)),
        ("instance_classes", instance_class(instance_type)),
        ("accelerators", "no accelerator" if accelerator is None else accelerator.name),
    ):
        if found is not None and found not in wanted.get(what, [found]):
            return f"it works with {' or '.join(wanted[what])}, not with {found}"
    return None


def upgrades(present: str) -> tuple[str, ...]:
    """Instance types that come next after those of a class; none where the catalog has none."""
    return tuple(landscape()["upgrades"].get(present, ()))
