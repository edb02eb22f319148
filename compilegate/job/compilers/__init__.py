"""The compilers that an arm can name: one folder each, all behind one small interface.

* `__init__.py`: its `Declaration` (name, image, options, proof), which needs no torch.
* `facts.toml`: dated facts for `compilegate.catalog`. They are not staged with a job, so a changed
  fact trains nothing again.
* `running.py`: `create(settings)` makes the `Compiler` of one job.

A new option needs a line in the declaration: workloads can set it, jobs get it, and the evidence
records it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import MappingProxyType
from typing import Any, Dict, Mapping, Tuple

from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import (
    Declaration,
    Option,
    Setting,
    Settings,
    StackTable,
    hyperparameter_of,
    table_text,
)

__all__ = [
    "Compiler",
    "Declaration",
    "Option",
    "Setting",
    "Settings",
    "StackTable",
    "compiler_options",
    "declarations",
    "hyperparameter_of",
    "load_compiler",
    "table_text",
    "with_option",
]


@functools.lru_cache(maxsize=None)
def declarations() -> Mapping[str, Declaration]:
    """Every compiler by its name, in the order of the names."""
    found: Dict[str, Declaration] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            declared = importlib.import_module(f"{__name__}.{module.name}").DECLARATION
            found[declared.name] = declared
    return MappingProxyType(dict(sorted(found.items())))


def package_of(name: str) -> str:
    """The package that holds all of this compiler."""
    return f"{__name__}.{name.replace('-', '_')}"


def load_compiler(name: str, given: Mapping[str, Any] = MappingProxyType({})) -> Compiler:
    """The compiler with that name and these options; missing options have their defaults.

    Raises InputError for an option that it lacks, and CompilerError if it cannot run.
    """
    settings = declarations()[name].settings(given)
    compiler: Compiler = importlib.import_module(f"{package_of(name)}.running").create(settings)
    return compiler


def compiler_options() -> Dict[str, Option]:
    """The options of all compilers by name; one that several have is the same in all."""
    return {option.name: option for each in declarations().values() for option in each.options}


def with_option(option: Option) -> Tuple[str, ...]:
    """The compilers that have this option, by name."""
    return tuple(name for name, each in declarations().items() if option in each.options)
