"""Every rule, in one table. A new family of rules is a line here."""

from __future__ import annotations

from compilegate.check.rules.rule import Rule
from compilegate.check.rules.steps import reading_out

RULES: tuple[Rule, ...] = (*reading_out.RULES,)

BY_NAME = {each.name: each for each in RULES}
