"""Starts training/train.py as torch_xla's launcher does: imported by its name, `_mp_fn` called.

    python launch.py training/train.py ARGUMENTS

In one process, since on a CPU that launcher crashes with two.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch_xla.distributed.xla_multiprocessing as launcher

if __name__ == "__main__":
    script = Path(sys.argv[1])
    sys.path.append(str(script.resolve().parent))
    sys.argv = sys.argv[1:]
    launcher.spawn(importlib.import_module(script.stem)._mp_fn, args=(), nprocs=1)
