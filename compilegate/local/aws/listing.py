"""Listings of a bucket: which keys and which common prefixes are on a page. Pure but for `keys`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Page:
    """A part of a listing."""

    keys: tuple[str, ...]
    prefixes: tuple[str, ...]
    """What several keys have in common up to the delimiter; it stands for them."""
    next: str | None
    """What the next page comes after; None on the last one."""


def keys_below(bucket: Path, prefix: str) -> list[str]:
    """The keys that begin with `prefix`, in S3's order (that of their UTF-8)."""
    folder = bucket / prefix.rpartition("/")[0] if "/" in prefix else bucket
    found: list[str] = []
    for parent, _, names in os.walk(folder, followlinks=True):
        base = Path(parent).relative_to(bucket).as_posix()
        for name in names:
            key = name if base == "." else f"{base}/{name}"
            # Hidden `.part` files are on their way into the store.
            if key.startswith(prefix) and not (name.startswith(".") and name.endswith(".part")):
                found.append(key)
    return sorted(found, key=os.fsencode)


def page_of(keys: Iterable[str], *, prefix: str, delimiter: str, after: str, most: int) -> Page:
    """The page of sorted `keys` that comes after `after`, with at most `most` entries."""
    listed: list[str] = []
    prefixes: list[str] = []
    last = after
    start = os.fsencode(after)
    for key in keys:
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        entry = key if end < 0 else key[: end + len(delimiter)]
        if os.fsencode(entry) <= start or (prefixes and entry == prefixes[-1]):
            continue
        if len(listed) + len(prefixes) >= most:
            return Page(tuple(listed), tuple(prefixes), last)
        (listed if end < 0 else prefixes).append(entry)
        last = entry
    return Page(tuple(listed), tuple(prefixes), None)
