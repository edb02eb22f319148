"""Calls a Lambda function's handler once:

    python invoke.py HANDLER_FILE FUNCTION ARN EVENT_FILE RESULT_FILE SECONDS

The event is JSON, and so is the result: an object with what the handler returns. The folder of its
file is the first on the path, as the root of a function's archive is. Standard library only.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import uuid
from pathlib import Path


class Context:
    """What a handler reads of its invocation."""

    def __init__(self, arn: str, seconds: float) -> None:
        self.invoked_function_arn = arn
        self.function_name = arn.rpartition(":function:")[2].partition(":")[0] or arn
        self.function_version = "$LATEST"
        self.memory_limit_in_mb = "128"
        self.aws_request_id = str(uuid.uuid4())
        self._end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int(1000 * (self._end - time.monotonic())))


def main() -> None:
    file, function, arn, event_file, result_file, seconds = sys.argv[1:]
    sys.path[0] = str(Path(file).parent)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    handler = getattr(module, function, None)
    if handler is None:
        raise SystemExit(f"{file} has no function {function}")
    event = json.loads(Path(event_file).read_text(encoding="utf-8"))
    result = {"OutputParameters": handler(event, Context(arn, float(seconds)))}
    Path(result_file).write_text(json.dumps(result, allow_nan=False), encoding="utf-8")


if __name__ == "__main__":
    main()
