"""Can a user's metric functions be loaded here? A program of its own, for a user's module may do
anything while it is imported.

    python3 -m compilegate.gate.function_check my_metrics.top_two ...

It prints one JSON object: `errors`, a sentence by dotted name, and `modules`, the top-level modules
that were imported in order to load them.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from collections.abc import Sequence

from compilegate.gate.metrics import MetricFunctionError, load_function


def main(names: Sequence[str]) -> int:
    """Load the functions by dotted name; returns the exit status."""
    before = set(sys.modules)
    errors: dict[str, str] = {}
    with contextlib.redirect_stdout(sys.stderr):  # what a module prints is not the answer
        for name in names:
            try:
                _check_takes_examples(name)
            except MetricFunctionError as error:
                errors[name] = str(error)
    top_level = {name.partition(".")[0] for name in sys.modules}
    modules = sorted(top_level - {name.partition(".")[0] for name in before})
    print(json.dumps({"errors": errors, "modules": modules}))
    return 0


def _check_takes_examples(name: str) -> None:
    function = load_function(name)
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C: there is nothing to look at
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise MetricFunctionError(
            f"metric function {name}{signature} cannot be called with the examples alone: {error}"
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
