"""The table of rules behind `advise`, `profile` and `check`: one place for what each of them says.

from compilegate.rules import table

table().rules["sync-in-step"].fix
table().measured["synchronisation"].remedy
"""

from __future__ import annotations

from compilegate.rules.table import COMPILERS, Measured, Rule, Table, table

__all__ = ["COMPILERS", "Measured", "Rule", "Table", "table"]
