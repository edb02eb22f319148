"""What a compiler can be asked for, and what it cannot: refusals and warnings, each one sentence.

Pure: plain values in, findings out; the day is an argument. The rules are in `rules.py`, the facts
in `compilers.py`, `images.py`, `instances.py` and `landscape.py`.
"""

from __future__ import annotations

import datetime

from compilegate.catalog.compilers import compilers
from compilegate.catalog.findings import Asked, Finding, refusal
from compilegate.catalog.landscape import graphless
from compilegate.catalog.rules import RULES, Case, no_graph


def check(asked: Asked, today: datetime.date) -> tuple[Finding, ...]:
    """Everything that the catalog has against it; refusals first. Empty when all is well."""
    compiler = compilers().get(asked.compiler)
    if compiler is None:
        known = ", ".join(compilers())
        return (
            refusal(
                "compiler", f"{asked.compiler!r} is no compiler of the catalog", f"allowed: {known}"
            ),
        )
    case = Case(asked=asked, compiler=compiler, today=today)
    if graphless(asked.framework) is not None:
        return tuple(no_graph(case))
    found = [finding for rule in RULES for finding in rule(case)]
    return tuple(sorted(found, key=lambda finding: finding.severity != "refusal"))
