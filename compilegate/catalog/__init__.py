"""Dated facts as data: prices, AWS's images, instances, compilers, tested batch sizes."""

from compilegate.catalog.prices import Price, UnknownPrice, price_of
from compilegate.catalog.rules import Asked, Finding, check, refusal, warning

__all__ = ["Asked", "Finding", "Price", "UnknownPrice", "check", "price_of", "refusal", "warning"]
