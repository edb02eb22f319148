"""Whether a compiler can do what an arm asks: refusals and warnings, one sentence each.

Pure: plain values in, findings out; today's date is an argument. The rules are in `rules.py`, the
facts in `compilers.py`, `images.py`, `instances.py` and `landscape.py`.
"""

from __future__ import annotations

import datetime

from compilegate.catalog.compilers import compilers
from compilegate.catalog.findings import Asked, Finding, refusal
from compilegate.catalog.landscape import graphless
from compilegate.catalog.rules import RULES, Case, no_graph


def check(asked: Asked, today: datetime.date) -> tuple[Finding, ...]:
    """Everything that speaks against it, refusals first; empty if nothing does."""
    compiler = compilers().get(asked.compiler)
    if compiler is None:
        known = ", ".join(compilers())
        return (
            refusal("compiler", f"{asked.compiler!r} is not in the catalog", f"allowed: {known}"),
        )
    compiler = compiler.backends.get(asked.backend or "", compiler)
    case = Case(asked=asked, compiler=compiler, today=today)
    if graphless(asked.framework) is not None:
        return tuple(no_graph(case))
    found = [finding for rule in RULES for finding in rule(case)]
    return tuple(sorted(found, key=lambda finding: finding.severity != "refusal"))
