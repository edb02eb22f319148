"""On-demand prices of SageMaker training instances, in `prices.csv`. Pure.

A price is a dated fact with a confidence:

    high      several independent copies of the public price list agree, or one was checked lately
    medium    one copy, which keeps the usual ratio to the price of the same machine in EC2
    derived   that ratio alone: no copy of the price itself was found

Public tables often show the EC2 price by mistake, which is lower; `ec2_usd_per_hour` is kept beside
each price so that this can be seen. What is not known is UnknownPrice with a reason, never zero.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

Confidence = Literal["high", "medium", "derived"]
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)


@dataclass(frozen=True)
class Price:
    """What an hour of one instance costs on demand, without storage and transfers."""

    instance_type: str
    regions: tuple[str, ...]
    """Where the price was seen; others may differ."""
    usd_per_hour: float
    date: str
    """When it was seen, `YYYY-MM`, or `YYYY-MM or earlier`."""
    confidence: Confidence
    ec2_usd_per_hour: float | None
    """Of the same machine in EC2; None when it is not known."""
    source: str
    """Where the price is from, in words; may be empty."""

    @property
    def note(self) -> str:
        """The price's conditions, for whoever reads an amount that was computed from it."""
        places = " and ".join(self.regions)
        return f"on demand in {places}, {self.date}, confidence {self.confidence}"


@dataclass(frozen=True)
class UnknownPrice:
    """No price, and why, in one sentence without a full stop."""

    instance_type: str
    reason: str


def price_of(instance_type: str, region: str | None = None) -> Price | UnknownPrice:
    """The price of an instance type in a region; without one, wherever the catalog saw it."""
    price = prices().get(instance_type)
    if price is None:
        return UnknownPrice(instance_type, f"the catalog has no price of {instance_type}")
    if region is not None and region not in price.regions:
        where = " and ".join(price.regions)
        reason = f"the catalog has no price of {instance_type} in {region}, only in {where}"
        return UnknownPrice(instance_type, reason)
    return price


@cache
def prices() -> dict[str, Price]:
    """Every price of the catalog, by instance type."""
    text = files("compilegate.catalog").joinpath("facts", "prices.csv").read_text(encoding="utf-8")
    return {row["instance_type"]: _price(row) for row in csv.DictReader(text.splitlines())}


def _price(row: dict[str, str]) -> Price:
    confidence = next(word for word in CONFIDENCES if word == row["confidence"])
    return Price(
        instance_type=row["instance_type"],
        regions=tuple(row["regions"].split("/")),
        usd_per_hour=float(row["usd_per_hour"]),
        date=row["date"],
        confidence=confidence,
        ec2_usd_per_hour=float(row["ec2_usd_per_hour"]) if row["ec2_usd_per_hour"] else None,
        source=row["source"],
    )
