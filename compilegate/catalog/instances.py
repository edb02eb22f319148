"""Training instances: which accelerator, how many, how much memory, what an hour costs. Pure.

`instances.csv` follows the SageMaker SDK's `instance_gpu_info` and, for g6, g6e and trn1, the EC2
instance pages (2026-11). Its column `efa` says `no` of the sizes below 8xlarge, which have none in
any family, and of p3 but for p3dn; of the others it says nothing. `accelerators.csv` says what each
accelerator can do.

`prices.csv` holds on-demand prices, each a dated fact with a confidence:

    high      several independent copies of the public price list agree, or one was checked lately
    medium    one copy, at the usual ratio to the EC2 price of the same machine
    derived   that ratio alone: no copy of the price itself was found

Public tables often show the EC2 price by mistake, which is lower; `ec2_usd_per_hour` stands beside
each price in the table so that people see this. An unknown price is UnknownPrice with a reason,
never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from compilegate.catalog.tables import fact_lines, fact_rows
from compilegate.job.machine.accelerators import CUDA, NEURON, Accelerators

Processor = Literal["cpu", "gpu", "neuron"]


@dataclass(frozen=True)
class Accelerator:
    """A GPU or a Trainium chip."""

    name: str
    architecture: str
    bf16: bool
    """Whether it computes in bfloat16 itself instead of emulating it."""
    last_pytorch_image: str | None = None
    """The newest PyTorch (`2.9`) whose AWS image has kernels for it; None if all have."""


@dataclass(frozen=True)
class Instance:
    instance_type: str
    accelerator: Accelerator
    accelerators: int
    accelerator_memory_gib: int
    """The memory of each accelerator."""
    no_efa: bool
    """Whether its network is known to have no Elastic Fabric Adapter."""


def instance_class(instance_type: str) -> str:
    """`ml.g5.xlarge` is of class `g5`; empty for anything that is not an instance type."""
    found = re.fullmatch(r"ml\.([a-z0-9-]+)\.[a-z0-9-]+", instance_type)
    return found[1] if found else ""


def accelerators_of(instance_type: str) -> Accelerators | None:
    """What a job finds on such an instance, as `compilegate.job` has it of a machine; None for one
    without an accelerator. Raises LookupError for an accelerated type that is not listed."""
    processor = processor_of(instance_type)
    if processor == "cpu":
        return None
    known = instances()[instance_type]
    capability = re.search(r"compute capability (\d+\.\d)", known.accelerator.architecture)
    return Accelerators(
        kind=NEURON if processor == "neuron" else CUDA,
        name=known.accelerator.name,
        count=known.accelerators,
        memory_bytes=known.accelerator_memory_gib << 30,
        capability=capability[1] if capability else None,
    )


def processor_of(instance_type: str) -> Processor:
    """What an instance computes with, by its class; works for unlisted types, too."""
    letters = re.match(r"[a-z]*", instance_class(instance_type))
    family = letters[0] if letters else ""
    if family in ("trn", "inf"):
        return "neuron"
    return "gpu" if family in ("p", "g", "gr") else "cpu"


def instance_of(instance_type: str) -> Instance | None:
    """The instance type; None if it has no accelerator or is not listed."""
    return instances().get(instance_type)


def accelerator_of(instance_type: str) -> Accelerator | None:
    """The instance's accelerator; for an unlisted type, that of its class."""
    wanted = instance_class(instance_type)
    for known in instances().values():
        if instance_class(known.instance_type) == wanted:
            return known.accelerator
    return None


@cache
def instances() -> dict[str, Instance]:
    """Every listed instance type."""
    accelerators = {each.name: each for each in fact_rows("accelerators.csv", Accelerator)}
    return {
        line["instance_type"]: Instance(
            instance_type=line["instance_type"],
            accelerator=accelerators[line["accelerator"]],
            accelerators=int(line["accelerators"]),
            accelerator_memory_gib=int(line["accelerator_memory_gib"]),
            no_efa=line.get("efa") == "no",
        )
        for line in fact_lines("instances.csv")
    }


@dataclass(frozen=True)
class Price:
    """What an hour of one instance costs on demand, without storage and transfers."""

    instance_type: str
    regions: tuple[str, ...]
    """Where this is the price; it may differ elsewhere."""
    usd_per_hour: float
    date: str
    """When it was seen, `YYYY-MM`, or `YYYY-MM or earlier`."""
    confidence: Literal["high", "medium", "derived", "declared"]
    """`declared`: it is the workload's file that says so."""

    @property
    def note(self) -> str:
        """The price's conditions, to be shown beside amounts computed from it."""
        if self.confidence == "declared":
            return "as the workload's file declares it"
        places = " and ".join(self.regions)
        return f"on demand in {places}, {self.date}, confidence {self.confidence}"


@dataclass(frozen=True)
class UnknownPrice:
    """Why there is no price, as a sentence without a full stop."""

    instance_type: str
    reason: str


def price_of(
    instance_type: str, region: str | None = None, declared: Mapping[str, float] | None = None
) -> Price | UnknownPrice:
    """The price of an instance type in a region, or in any region if none is given. `declared` are
    those of the workload's own file, which count first."""
    if declared and instance_type in declared:
        return Price(instance_type, (), declared[instance_type], "", "declared")
    price = prices().get(instance_type)
    if price is None:
        return UnknownPrice(instance_type, f"the catalog has no price for {instance_type}")
    if region is not None and region not in price.regions:
        where = " and ".join(price.regions)
        reason = f"the catalog has no price for {instance_type} in {region}, only in {where}"
        return UnknownPrice(instance_type, reason)
    return price


@cache
def prices() -> dict[str, Price]:
    """Every price in the catalog, by instance type."""
    lines = [{**line, "regions": line["regions"].split("/")} for line in fact_lines("prices.csv")]
    found = TypeAdapter(tuple[Price, ...]).validate_python(lines)
    return {price.instance_type: price for price in found}
