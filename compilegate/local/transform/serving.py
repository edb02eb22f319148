"""Transforms files with a model, in its image's environment:

    python serving.py PLAN.json

The handler of the model's code answers (`compilegate/serving/toolkit.py`, which lies beside this
file when it runs). Without one `built_in.py` serves the model of a built-in algorithm. Python 3.8;
what it imports beyond the standard library is the image's own.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

records: Any
built_in: Any
toolkit: Any
if __name__ == "__main__":  # the neighbours of a file that runs by itself
    neighbours = ("records", "built_in", "toolkit")
    records, built_in, toolkit = (importlib.import_module(name) for name in neighbours)
    for name in neighbours:
        del sys.modules[name]  # a handler may have modules of these names
else:
    records = importlib.import_module(f"{__package__}.records")
    built_in = importlib.import_module(f"{__package__}.built_in")
    toolkit = importlib.import_module("compilegate.serving.toolkit")

Predictor = Any
"""A function from a request's body to the response and its type."""


class ServingError(Exception):
    """Why there is no prediction; the job fails with this sentence."""


def main() -> None:
    """Load the model once, and transform every file."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        predict = predictor(plan)
        for name in plan["files"]:
            target = Path(plan["output"]) / (name + ".out")
            target.parent.mkdir(parents=True, exist_ok=True)
            content = (Path(plan["input"]) / name).read_bytes()
            if plan["gzipped"]:
                content = gzip.decompress(content)
            target.write_bytes(transformed(content, plan, predict))
            print(f"transformed {name}", flush=True)
    except (
        ServingError,
        built_in.ContentError,
        records.FilterError,
        toolkit.HandlerError,
        toolkit.UnsupportedTypeError,
    ) as error:
        raise SystemExit(f"error: {error}") from None


def transformed(content: bytes, plan: dict[str, Any], predict: Predictor) -> bytes:
    """The predictions for one file, put together as the request asks."""
    if not plan["split_lines"]:
        answer: bytes = predict(content)[0]
        return answer + (b"\n" if plan["assemble_lines"] and not answer.endswith(b"\n") else b"")
    lines = [line for line in content.decode("utf-8").splitlines() if line.strip()]
    parts: list[str] = []
    for group in records.batches(lines, plan["single_records"], plan["payload_bytes"]):
        parts += _of_group(group, plan, predict)
    end = "\n" if plan["assemble_lines"] else ""
    return "".join(part + end for part in parts).encode("utf-8")


def _of_group(group: list[str], plan: dict[str, Any], predict: Predictor) -> list[str]:
    kind = plan["content_type"]
    wanted = records.parse_filter(plan["input_filter"])
    sent = group
    if wanted:
        chosen = (records.select(records.parse_record(line, kind), wanted) for line in group)
        sent = [records.write_record(each, kind) for each in chosen]
    body = sent[0] if len(sent) == 1 else "\n".join(sent) + "\n"
    answer, answer_type = predict(body.encode("utf-8"))
    leaves = records.parse_filter(plan["output_filter"])
    text = answer.decode("utf-8")
    if not leaves and not plan["join"]:
        return [text[:-1] if text.endswith("\n") else text]
    found: list[Any] = list(records.predictions(text, answer_type, len(group)))
    written = answer_type
    if plan["join"]:
        pairs = zip(group, found)  # noqa: B905  Python 3.8; they are as many
        found = [records.joined(records.parse_record(line, kind), each) for line, each in pairs]
        written = kind
    return [records.write_record(records.select(each, leaves), written) for each in found]


def predictor(plan: dict[str, Any]) -> Predictor:
    """What answers a request: the handler, or the built-in algorithm."""
    accept = plan["accept"] or os.environ.get("SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "")
    kind = plan["content_type"] or records.CSV
    model_folder, defaults = Path(plan["model"]), plan["defaults"]
    found: Predictor = None
    if not plan["program"]:
        found = built_in.predictor(model_folder, kind, accept)
    if found is not None:
        return found
    if plan["program"] or defaults != "arrays":
        handler = toolkit.Handler(str(model_folder), Path(plan["code"]), plan["program"], defaults)
        if not accept:
            as_text = defaults == "arrays" and kind != toolkit.JSON
            accept = toolkit.CSV if as_text else toolkit.JSON
        return lambda body: handler.answer(body, kind, accept)
    there = ", ".join(sorted(path.name for path in model_folder.iterdir())) or "nothing"
    raise ServingError(
        "the model has no inference code (SAGEMAKER_PROGRAM is not set) and is none of a built-in "
        f"algorithm's that answers here ({built_in.MODELS}); its archive has {there}"
    )


if __name__ == "__main__":
    main()
