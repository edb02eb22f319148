"""The table of rules behind `advise`, `profile` and `check`: one place for what each says."""

from __future__ import annotations

from compilegate.rules.table import COMPILERS, Measured, Rule, Severity, Table, table

__all__ = ["COMPILERS", "Measured", "Rule", "Severity", "Table", "table"]
