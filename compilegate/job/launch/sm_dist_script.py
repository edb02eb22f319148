"""Stands for a training script where `torch_xla.distributed.sm_dist` starts one.

It imports this file in each process and calls `_mp_fn(index)`, or runs it. The script itself and
its arguments are in a variable, as `sm_dist.py` left them there; so they arrive as declared.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

from compilegate.job.names import SCRIPT_ARGUMENTS_VARIABLE

NO_FUNCTION = (
    "error: {script} has no function _mp_fn(index), which the launcher of Training Compiler calls "
    "in each process; add `def _mp_fn(index): main()`"
)


def _mp_fn(index: int) -> None:
    """Call the script's own function, in a process that torch_xla started."""
    script = _become()
    module = _imported(script)
    if not hasattr(module, "_mp_fn"):
        sys.exit(NO_FUNCTION.format(script=script))
    module._mp_fn(index)


def _become() -> str:
    """Take the script's arguments and its place among the modules' folders; returns its path."""
    script, *arguments = json.loads(os.environ[SCRIPT_ARGUMENTS_VARIABLE])
    sys.argv = [script, *arguments]
    folder = str(Path(script).resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return str(script)


def _imported(script: str) -> ModuleType:
    """The script as a module, under its own name, so that what it defines can be pickled."""
    name = Path(script).stem
    specification = importlib.util.spec_from_file_location(name, script)
    if specification is None or specification.loader is None:
        sys.exit(f"error: the hyperparameter training_script is {script}, expected a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


if __name__ == "__main__":
    runpy.run_path(_become(), run_name="__main__")
