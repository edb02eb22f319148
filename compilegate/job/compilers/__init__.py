"""The compilers that an arm can name: `declaration` says what each is and takes, `compiler` is
their interface, the other modules hold one compiler each."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Any, Mapping

from compilegate.job.compilers.compiler import Compiler as Compiler
from compilegate.job.compilers.declaration import Option as Option
from compilegate.job.compilers.declaration import Setting as Setting
from compilegate.job.compilers.declaration import StackTable as StackTable
from compilegate.job.compilers.declaration import compiler_options as compiler_options
from compilegate.job.compilers.declaration import declarations as declarations
from compilegate.job.compilers.declaration import hyperparameter_of as hyperparameter_of
from compilegate.job.compilers.declaration import table_text as table_text
from compilegate.job.errors import CompilerError, first_line


def load_compiler(name: str, given: Mapping[str, Any] = MappingProxyType({})) -> Compiler:
    """The compiler with these options, or their defaults. Raises InputError for an option that it
    lacks, and CompilerError if it cannot run."""
    declaration = declarations()[name]
    settings = declaration.settings(given)
    module_name, _, kind = declaration.implementation.partition(".")
    try:
        module = importlib.import_module(f"{__name__}.{module_name}")
    except (ImportError, AttributeError) as error:  # of torch's own modules
        import torch  # noqa: PLC0415 - declarations are read without it

        raise CompilerError(
            f"{name} needs a newer torch, this is torch {torch.__version__} ({first_line(error)}); "
            "take a newer image, or compiler = 'eager'"
        ) from error
    compiler: Compiler = getattr(module, kind)(settings)
    return compiler
