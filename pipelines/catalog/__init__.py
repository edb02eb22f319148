"""Dated facts as data: prices, AWS's images, instances, compilers, tested batch sizes."""

from pipelines.catalog.checks import check
from pipelines.catalog.findings import Asked, Finding
from pipelines.catalog.prices import Price, UnknownPrice, price_of

__all__ = ["Asked", "Finding", "Price", "UnknownPrice", "check", "price_of"]
