"""What `compilegate check` looks for: a function for each rule of `compilegate/rules`."""

from compilegate.check.rules import compiling, estimators, shapes, step, xla
from compilegate.check.rules.base import Rule

_MODULES = (step, shapes, compiling, xla, estimators)
_NAMED = [each for module in _MODULES for each in vars(module).values()]
RULES = tuple(each for each in _NAMED if isinstance(each, Rule))
BY_NAME = {each.name: each for each in RULES}
