"""How long a value can get once the service has filled in its variables.

A limit on a string holds for what a Join comes to in an execution, after the jobs before it were
paid for. So it is held against the longest that every part can be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compilegate.document.expressions import ExpressionError, lookup, parse_path

JOB_NAME = 63
"""Characters that the service's names of jobs have at most."""
NUMBER = 24
"""Characters of the longest floating-point number, as `-1.7976931348623157e+308`."""

_EXECUTION = {"Execution.PipelineExecutionId": 12}
_MODEL_ARCHIVE = "/output/model.tar.gz"

_STEP = re.compile(r"Steps\.(?P<step>[\w-]+)\.(?P<path>.+)")


@dataclass(frozen=True)
class Lengths:
    """The lengths of values that refer to the steps of one definition."""

    requests: Mapping[str, Mapping[str, Any]]
    """Each step's request by its name."""

    def longest(self, value: Any) -> int | None:
        """The most characters that a value can have; None where nobody can tell."""
        match value:
            case {"Std:Join": {"On": separator, "Values": values}}:
                lengths = [self.longest(part) for part in values]
                known = [length for length in lengths if length is not None]
                between = len(separator) * (len(values) - 1)
                return sum(known) + between if len(known) == len(lengths) else None
            case {"Get": str(reference)}:
                return self._of_reference(reference)
            case str() | int() | float():
                return len(str(value))
        return None

    def _of_reference(self, reference: str) -> int | None:
        found = _STEP.fullmatch(reference)
        if found is None:
            return _EXECUTION.get(reference)
        request, path = self.requests.get(found["step"], {}), found["path"]
        if path in {"TrainingJobName", "ProcessingJobName"}:
            return JOB_NAME
        if path.startswith("FinalMetricDataList["):
            return NUMBER
        if path == "ModelArtifacts.S3ModelArtifacts":
            place = self._of_member(request, "OutputDataConfig.S3OutputPath")
            return None if place is None else place + 1 + JOB_NAME + len(_MODEL_ARCHIVE)
        return self._of_member(request, path)

    def _of_member(self, request: Mapping[str, Any], path: str) -> int | None:
        """What is described of a job as it was asked for."""
        try:
            return self.longest(lookup(request, parse_path(path), by_name=True))
        except ExpressionError:
            return None
