"""Dated facts as data: prices, AWS's images, instances, compilers, tested batch sizes."""

from compilegate.catalog.findings import Finding, finding
from compilegate.catalog.prices import Price, UnknownPrice, price_of
from compilegate.catalog.rules import NO_DAY, Asked, check

__all__ = [
    "NO_DAY",
    "Asked",
    "Finding",
    "Price",
    "UnknownPrice",
    "check",
    "finding",
    "price_of",
]
