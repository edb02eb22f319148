"""Dated facts as data: prices, AWS's images, instances, compilers, tested batch sizes."""

from compilegate.catalog.checks import check
from compilegate.catalog.findings import Asked, Finding
from compilegate.catalog.prices import Price, UnknownPrice, price_of

__all__ = ["Asked", "Finding", "Price", "UnknownPrice", "check", "price_of"]
