"""Dated facts as data: what an hour of an instance costs."""

from pipelines.catalog.prices import Price, UnknownPrice, price_of

__all__ = ["Price", "UnknownPrice", "price_of"]
