"""The compilers: what may be asked of each, from its `facts/NAME.toml`. Pure.

An empty or absent list restricts nothing, but for `distributions`: what is not listed there cannot
be asked of this project.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from compilegate.catalog.images import BaseImage, find_image
from compilegate.catalog.instances import Processor
from compilegate.catalog.maintenance import Maintenance, maintenance_of
from compilegate.execution.target import Target
from compilegate.job.compilers import declarations

Distribution = Literal["pytorchxla", "sm_dist", "in the script"]


@dataclass(frozen=True, kw_only=True)
class Stack:
    """Framework versions that go together in one image of AWS."""

    framework: str
    version: str
    transformers: str | None
    """The version in a Hugging Face image; None in an image that brings none."""
    image_framework: str
    """What the catalog of images calls its framework."""
    distribution: Distribution | None
    """What a job on more than one accelerator takes; `sm_dist` is a launcher script in front of the
    training script, `in the script` is TensorFlow's own strategy. None where one process is all."""
    extendable: bool
    """Whether AWS lists the image as one that may be extended."""

    @property
    def label(self) -> str:
        """The stack in words."""
        transformers = f" with Transformers {self.transformers}" if self.transformers else ""
        return f"{self.framework} {self.version}{transformers}"

    @property
    def image(self) -> BaseImage:
        """The image that holds it, with its URI in each region."""
        processor = "neuron" if "neuron" in self.image_framework else "gpu"
        return find_image(
            self.image_framework,
            self.version,
            transformers=self.transformers,
            processor=processor,
        )


@dataclass(frozen=True, kw_only=True)
class Compiling:
    """How long a compiler works before it trains, and which jobs repay that."""

    seconds: tuple[int, int]
    """From, to; usually."""
    repaid_seconds: int
    """The shortest job that is said to gain."""
    source: str


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """What may be asked of one compiler."""

    name: str
    title: str
    frameworks: tuple[str, ...]
    """None listed means no restriction."""
    oldest: str | None
    """The first framework version that works; None without such a bound."""
    newest: str | None
    """The last one; None without such a bound."""
    stacks: tuple[Stack, ...]
    """The only framework versions there are; none listed means no such restriction."""
    processors: tuple[Processor, ...]
    instance_classes: tuple[str, ...]
    """The only classes of instances; none listed means no such restriction."""
    efa_instances: tuple[str, ...]
    """Those whose network is fast between instances; none listed where AWS does not say."""
    distributions: tuple[str, ...]
    """How a job may be spread over several accelerators."""
    precisions: tuple[str, ...]
    untested_precisions: tuple[str, ...]
    """May work; its maker never tested them."""
    tested_models: bool
    """Whether its maker publishes which models it was tested with."""
    compiling: Compiling | None
    """How long it compiles; None where its maker does not say."""
    absent_in: tuple[str, ...]
    """Regions without it, though they may have the image."""
    targets: tuple[Target, ...]
    """Where it runs."""
    instead: Mapping[Processor, str]
    """What to do on a processor that it does not compile for."""
    maintained: Maintenance
    backends: Mapping[str, Compiler]
    """The same with one of its backends, by name; only those that the catalog knows."""
    sources: tuple[str, ...]
    date: str

    def stack(self, framework: str, version: str, transformers: str | None) -> Stack | None:
        """The stack of exactly these versions."""
        wanted = (framework, version, transformers)
        for stack in self.stacks:
            if (stack.framework, stack.version, stack.transformers) == wanted:
                return stack
        return None


@cache
def compilers() -> dict[str, Compiler]:
    """Every compiler, by name."""
    return {name: _compiler(name, _facts(name)) for name in declarations()}


def _facts(name: str) -> dict[str, Any]:
    file = "torch-compile.toml" if name == "inductor" else f"{name}.toml"  # its default backend
    text = files("compilegate.job.compilers").joinpath("facts", file).read_text(encoding="utf-8")
    return tomllib.loads(text)


def _compiler(name: str, entry: Mapping[str, Any]) -> Compiler:
    return Compiler(
        name=name,
        title=entry["title"],
        frameworks=tuple(entry["frameworks"]),
        oldest=entry.get("oldest"),
        newest=entry.get("newest"),
        stacks=tuple(_stack(stack) for stack in entry.get("stacks", ())),
        processors=tuple(entry["processors"]),
        instance_classes=tuple(entry.get("instance_classes", ())),
        efa_instances=tuple(entry.get("efa_instances", ())),
        distributions=tuple(entry["distributions"]),
        precisions=tuple(entry["precisions"]),
        untested_precisions=tuple(entry.get("untested_precisions", ())),
        tested_models=entry.get("tested_models", False),
        compiling=_compiling(entry.get("compiling")),
        absent_in=tuple(entry.get("absent_in", ())),
        targets=tuple(Target(name) for name in entry["targets"]),
        instead=entry.get("instead", {}),
        maintained=maintenance_of(entry["maintained"]),
        backends={
            backend: _compiler(name, {**entry, "backends": {}, **changes})
            for backend, changes in entry.get("backends", {}).items()
        },
        sources=tuple(entry["sources"]),
        date=entry["date"],
    )


def _compiling(entry: Mapping[str, Any] | None) -> Compiling | None:
    if entry is None:
        return None
    return Compiling(
        seconds=(entry["seconds"][0], entry["seconds"][1]),
        repaid_seconds=entry["repaid_seconds"],
        source=entry["source"],
    )


def _stack(entry: Mapping[str, Any]) -> Stack:
    return Stack(
        framework=entry["framework"],
        image_framework=entry["image"],
        version=entry["version"],
        transformers=entry.get("transformers"),
        distribution=entry.get("distribution"),
        extendable=entry.get("extendable", False),
    )
