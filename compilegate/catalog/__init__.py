"""Dated facts as data: prices, AWS's images, instances, compilers, tested batch sizes.

rules.py          whether a compiler can train an arm: `check`
compilers.py      compilers, their stacks and who maintains them; services and libraries of AWS
images.py         AWS's images, and until when they are patched
instances.py      instances, their accelerators and prices
tested_models.py  the largest batches that fitted in AWS's tests
tables.py         reads facts/, where all of this stands as data
"""

from compilegate.catalog.instances import Price, UnknownPrice, price_of
from compilegate.catalog.rules import NO_DAY, ArmSettings, check
from compilegate.catalog.tables import Finding, finding

__all__ = [
    "NO_DAY",
    "ArmSettings",
    "Finding",
    "Price",
    "UnknownPrice",
    "check",
    "finding",
    "price_of",
]
