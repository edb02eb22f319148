"""What `compilegate check` looks for: a function of the name of each rule of `compilegate/rules`,
which looks at one script at a time."""

from compilegate.check.rules import compiling, estimators, shapes, step, xla
from compilegate.check.rules.base import Find
from compilegate.rules import table

_FUNCTIONS = {
    name: each
    for module in (step, shapes, compiling, xla, estimators)
    for name, each in vars(module).items()
}
FINDERS: dict[str, Find] = {name: _FUNCTIONS[name.replace("-", "_")] for name in table().rules}
