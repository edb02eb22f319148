"""Read an expression as EventBridge Scheduler writes it."""

from __future__ import annotations

import re

from pipelines.workload.schedule.cron import Cron, read_cron
from pipelines.workload.schedule.errors import ExpressionError
from pipelines.workload.schedule.rate import Rate, read_rate


def read_expression(text: str) -> Rate | Cron:
    """`rate(...)` or `cron(...)` as types. Raises ExpressionError: what was found, what is allowed.

    `at(...)` is refused, since what starts once is no schedule for training again and again.
    """
    match = re.fullmatch(r"(rate|cron|at)\((.*)\)", text)
    if match is None:
        raise ExpressionError(
            f"found {text!r}, allowed: rate(...) or cron(...), as in rate(7 days) or "
            "cron(0 6 ? * MON *)"
        )
    kind, content = match[1], match[2]
    if kind == "at":
        raise ExpressionError(
            f"found {text}, which starts once and never again, allowed: rate(...) or cron(...); "
            "to train once, start an execution by hand"
        )
    return read_rate(content) if kind == "rate" else read_cron(content)
