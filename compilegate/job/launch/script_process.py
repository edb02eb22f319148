"""Seeds a process of an arm's job, then becomes its training script.

The arm's seed is set before the script's first line: Python's generator at once, NumPy's and
torch's when the script imports them, since it may set OMP_NUM_THREADS first. The script is in
SCRIPT_VARIABLE; its arguments are this program's, or in SCRIPT_ARGUMENTS_VARIABLE. Launchers of
PyTorch/XLA import this file and call `_mp_fn(index)`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Sequence

from compilegate.job import contract
from compilegate.job.launch.script_arguments import job_text


def seed_process(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch; those of a library when it is imported."""
    random.seed(seed)
    seeds: dict[str, Callable[[Any], None]] = {
        "numpy.random": lambda module: module.seed(seed % 2**32),
        "torch": lambda module: module.manual_seed(seed),  # of its CPU and every GPU
    }
    for name in [name for name in seeds if name in sys.modules]:
        seeds.pop(name)(sys.modules[name])
    if seeds:
        sys.meta_path.insert(0, _OnImport(seeds))


class _OnImport(MetaPathFinder):
    """Calls a function with a module when it has been imported for the first time."""

    def __init__(self, calls: dict[str, Callable[[Any], None]]) -> None:
        self._calls = calls  # by the modules' names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the other finders have it, with a loader that calls the function: to be found is not
        to be imported."""
        if name not in self._calls:
            return None
        others = [each for each in sys.meta_path if each is not self and hasattr(each, "find_spec")]
        found = (each.find_spec(name, path, target) for each in others)
        spec = next((each for each in found if each is not None), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            load = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                load(module)
                self._calls.pop(name)(module)
                if not self._calls:
                    sys.meta_path.remove(self)

            loader.exec_module = exec_module
        return spec


def _mp_fn(index: int) -> None:
    """Call the script's own function, in a process that torch_xla started."""
    script = _become()
    # Under its own name, so that what it defines can be pickled.
    specification: Any = importlib.util.spec_from_file_location(Path(script).stem, script)
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    if not hasattr(module, "_mp_fn"):
        sys.exit(
            f"error: {script} has no function _mp_fn(index), which the launcher of Training "
            "Compiler calls in each process; add `def _mp_fn(index): main()`"
        )
    module._mp_fn(index)


def _become() -> str:
    """Take the arm's seed, the script's arguments and its folder; returns its path."""
    text = job_text(os.environ)
    if text:
        seed_process(int(json.loads(text).get(contract.SEED, 0)))
    script = os.environ[contract.SCRIPT_VARIABLE]
    arguments = os.environ.get(contract.SCRIPT_ARGUMENTS_VARIABLE)
    sys.argv = [script, *(sys.argv[1:] if arguments is None else json.loads(arguments))]
    folder = str(Path(script).resolve().parent)
    if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
        sys.path[0] = folder  # this program's place is no place of the script's modules
    elif folder not in sys.path:
        sys.path.insert(0, folder)
    return script


def _run(script: str) -> None:
    """Run the script as Python runs a file. It stays `__main__`, where its classes are looked up to
    the end."""
    module, path = ModuleType("__main__"), os.path.abspath(script)
    loader = SourceFileLoader("__main__", path)
    module.__file__, module.__loader__ = path, loader
    sys.modules["__main__"] = module
    code = loader.source_to_code(loader.get_data(path), path)
    exec(code, vars(module))  # noqa: S102 - it is the program that this process was started for


if __name__ == "__main__":
    _run(_become())
