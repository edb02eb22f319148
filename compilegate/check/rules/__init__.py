"""What `compilegate check` looks for: a function for each rule of `compilegate/rules`."""

from compilegate.check.rules import compiling, estimators, shapes, step, xla
from compilegate.check.rules.base import Rule

RULES: tuple[Rule, ...] = (
    *step.RULES,
    *shapes.RULES,
    *compiling.RULES,
    *xla.RULES,
    *estimators.RULES,
)
BY_NAME = {each.name: each for each in RULES}
