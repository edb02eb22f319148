"""Golden files of the mission: documents as the service gets them, without what every change moves.

`UPDATE_GOLDEN=1 make mission` writes them; the commit that changes one says why.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"
ACCOUNT, REGION = "123456789012", "us-east-1"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0c1a2b3d-1111-2222-3333-444455556666"
MOST_SHOWN = 12
_DIGEST = re.compile(rf"(?<![0-9A-Za-z])(?!{ACCOUNT}|444455556666)[0-9a-f]{{12,64}}(?![0-9A-Za-z])")


def without_digests(value: Any) -> Any:
    """The document with `DIGEST` where the digest of code, data or an image stands: any change of
    the program moves those."""
    if isinstance(value, Mapping):
        return {_DIGEST.sub("DIGEST", key): without_digests(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_digests(each) for each in value]
    return _DIGEST.sub("DIGEST", value) if isinstance(value, str) else value


def compare(name: str, document: Any) -> None:
    """Hold a document against the golden file of that name, or write that."""
    path, found = GOLDEN / f"{name}.json", without_digests(document)
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(found) + "\n", encoding="utf-8")
    expected = json.loads(path.read_text(encoding="utf-8"))
    differences = list(differing(expected, found, ""))
    assert not differences, "\n".join([f"{path}:", *differences[:MOST_SHOWN]])


def _text(document: Any, levels: int = 2) -> str:
    """JSON with a line for each step, resource or request: what a difference is then seen in."""
    if not levels or not isinstance(document, (Mapping, list)) or not document:
        return json.dumps(document)
    if isinstance(document, list):
        return "[\n" + ",\n".join(_text(each, levels - 1) for each in document) + "\n]"
    rows = (f"{json.dumps(key)}: {_text(each, levels - 1)}" for key, each in document.items())
    return "{\n" + ",\n".join(rows) + "\n}"


def differing(expected: Any, found: Any, where: str) -> Iterator[str]:
    """Where two documents differ, with both values."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        for key in {**expected, **found}:
            yield from differing(expected.get(key), found.get(key), f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (before, after) in enumerate(zip(expected, found, strict=True)):
            yield from differing(before, after, f"{where}[{number}]")
    elif expected != found:
        yield f"{where}: golden {expected!r:.300}, now {found!r:.300}"
