"""On-demand prices of SageMaker training instances, in `prices.csv`. Pure.

A price is a dated fact with a confidence:

    high      several independent copies of the public price list agree, or one was checked lately
    medium    one copy, at the usual ratio to the EC2 price of the same machine
    derived   that ratio alone: no copy of the price itself was found

Public tables often show the EC2 price by mistake, which is lower; `ec2_usd_per_hour` stands beside
each price in the table so that people see this. An unknown price is UnknownPrice with a reason,
never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from compilegate.catalog.reading import fact_lines


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
