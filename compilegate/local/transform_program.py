"""Transforms files with a model, in the environment of its image: python transform.py PLAN

The handler of the model's code answers, by `compilegate/serving/toolkit.py`; without one, XGBoost's
own by `xgboost.py`. Both are copied beside this file, under names that no handler has. Standard
library, Python 3.8.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

XGBOOST, TOOLKIT = "compilegate_xgboost", "compilegate_toolkit"
"""The modules beside this one."""
_LINES_AT_ONCE = 1000
_PART = re.compile(
    r"""\.([A-Za-z_][\w\-]*)|\[\s*('[^']*'|"[^"]*"|-?\d*\s*:\s*-?\d*|-?\d+(?:\s*,\s*-?\d+)*)\s*\]"""
)
"""A name after a dot; or in brackets a name, a slice or indices."""


class FilterError(ValueError):
    """A filter is malformed, or a record has not what it selects."""


def parse_filter(text: str) -> list[Any]:
    """The names, slices and lists of indices in `$`, `$.a['b']`, `$[0]`, `$[1:]`, `$[0,2]`. Raises
    FilterError."""
    if not re.fullmatch(rf"\$({_PART.pattern})*", text):
        raise FilterError(f"{text!r} is not supported here, as are $.a['b'], $[1:] and $[0,-1]")
    found: list[Any] = []
    for name, inner in _PART.findall(text):
        if name or inner[0] in "'\"":
            found.append(name or inner[1:-1])
        elif ":" in inner:
            found.append(slice(*(int(end) if end.strip() else None for end in inner.split(":"))))
        else:
            found.append([int(index) for index in inner.split(",")])
    return found


def _select(record: Any, selectors: Sequence[Any]) -> Any:
    for each in selectors:
        try:
            if isinstance(each, list):
                record = [record[index] for index in each] if len(each) > 1 else record[each[0]]
            else:
                record = record[each]
        except (LookupError, TypeError):
            raise FilterError(f"a record has no {each!r}: {str(record)[:80]}") from None
    return record


def _read(line: str, content_type: str) -> Any:
    """One record: its columns, or its JSON."""
    try:
        return json.loads(line) if "json" in content_type else next(csv.reader([line]), [])
    except ValueError as error:
        raise FilterError(f"a record is not JSON: {error}: {line[:80]}") from None


def _written(record: Any, content_type: str) -> str:
    if "json" in content_type:
        return json.dumps(record)
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(record if isinstance(record, list) else [record])
    return out.getvalue()


def _transformed(content: bytes, plan: dict[str, Any], answer: Any) -> bytes:
    """The predictions for one file, put together as the request says."""
    if not plan["split_lines"]:
        whole: bytes = answer(content)[0]
        return whole + (b"\n" if plan["assemble_lines"] and not whole.endswith(b"\n") else b"")
    lines = [line for line in content.decode("utf-8").splitlines() if line.strip()]
    # Alone, a prediction is known to be its record's.
    alone = plan["one_by_one"] or plan["join"] or plan["output_filter"] != "$"
    size = 1 if alone else _LINES_AT_ONCE
    groups = (lines[first : first + size] for first in range(0, len(lines), size))
    end = "\n" if plan["assemble_lines"] else ""
    parts = (_answered(group, plan, answer) for group in groups)
    return "".join(part if part.endswith(end) else part + end for part in parts).encode("utf-8")


def _answered(group: Sequence[str], plan: dict[str, Any], answer: Any) -> str:
    kind, wanted = plan["content_type"], parse_filter(plan["input_filter"])
    sent = (
        [_written(_select(_read(line, kind), wanted), kind) for line in group] if wanted else group
    )
    body = sent[0] if len(sent) == 1 else "\n".join(sent) + "\n"
    content, written = answer(body.encode("utf-8"))
    text: str = content.decode("utf-8")
    left = parse_filter(plan["output_filter"])
    if not plan["join"] and not left:
        return text
    found = _read(text.strip(), written)
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if plan["join"]:
        record, written = _read(group[0], kind), kind
        if isinstance(record, dict):
            found = {**record, "SageMakerOutput": found}
        else:
            found = [*record, *(found if isinstance(found, list) else [found])]
    return _written(_select(found, left), written)


def _handler(plan: dict[str, Any], toolkit: Any, boosted: str) -> Any:
    """What answers a request's body: the model's own handler, or XGBoost's."""
    code, program, defaults, folder = map(
        plan.__getitem__, ("code", "program", "defaults", "model")
    )
    kind = plan["content_type"] or toolkit.CSV
    accept = plan["accept"] or os.environ.get("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "")
    if not accept:
        accept = toolkit.CSV if defaults == "arrays" and kind != toolkit.JSON else toolkit.JSON
    if not program and Path(folder, boosted).is_file():
        code, program, defaults = Path(__file__).parent, XGBOOST, "arrays"
    if not program and defaults == "arrays":
        there = ", ".join(sorted(path.name for path in Path(folder).iterdir())) or "nothing"
        raise toolkit.HandlerError(
            f"the model has no inference code (SAGEMAKER_PROGRAM is not set) and no {boosted}; its "
            f"archive has {there}"
        )
    handler = toolkit.Handler(folder, Path(code), program, defaults)
    return lambda body: handler.answer(body, kind, accept)


def main() -> None:
    """Load the model once, and transform every file; PLAN is JSON."""
    plan = json.loads(sys.argv[1])
    os.chdir(plan["model"])
    toolkit, xgboost = map(importlib.import_module, (TOOLKIT, XGBOOST))
    known = (FilterError, toolkit.HandlerError, toolkit.UnsupportedTypeError, xgboost.JobError)
    try:
        answer = _handler(plan, toolkit, xgboost.MODEL)
        for path in sorted(Path(plan["input"]).rglob("*")):
            if path.is_file():
                name = path.relative_to(plan["input"])
                target = Path(plan["output"], f"{name}.out")
                target.parent.mkdir(parents=True, exist_ok=True)
                content = path.read_bytes()
                content = gzip.decompress(content) if plan["gzipped"] else content
                target.write_bytes(_transformed(content, plan, answer))
                print(f"transformed {name}", flush=True)
    except known as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
