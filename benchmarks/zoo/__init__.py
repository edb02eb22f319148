"""The zoo: a hundred architectures that nobody here designed, by name."""

from __future__ import annotations

from benchmarks.zoo import others, transformer, vision

_ALL = (*vision.ARCHITECTURES, *transformer.ARCHITECTURES, *others.ARCHITECTURES)
HUNDRED = {each.name: each for each in _ALL}
