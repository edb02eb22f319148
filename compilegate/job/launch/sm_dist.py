"""Starts a training script on every GPU in images of PyTorch 1.10.2 and before. The script is the
hyperparameter `training_script`.

AWS's launcher `torch_xla.distributed.sm_dist` makes `--flag` of `--flag True` and drops `--flag
False`. So it starts `script_process.py`, which finds the arguments in a variable, taken from the
toolkit's, since its command line does not tell True from "True".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Mapping

from compilegate.job import contract
from compilegate.job.launch import script_process
from compilegate.job.machine.accelerators import name_gpus


def main(environment: Mapping[str, str]) -> int:
    declared: dict[str, Any] = json.loads(
        environment.get(contract.HYPERPARAMETERS_VARIABLE) or "{}"
    )
    if "training_script" not in declared:
        print("error: the hyperparameter training_script is missing", file=sys.stderr)
        return 2
    script = str(declared.pop("training_script"))
    words = [word for name in sorted(declared) for word in _words(name, declared[name])]
    child = {
        **environment,
        contract.SCRIPT_VARIABLE: script,
        contract.SCRIPT_ARGUMENTS_VARIABLE: json.dumps(words),
    }
    name_gpus(child)
    launcher = [sys.executable, "-m", "torch_xla.distributed.sm_dist", "--training_script"]
    return subprocess.call([*launcher, script_process.__file__], env=child)


def _words(name: str, value: Any) -> list[str]:
    """One hyperparameter, as the toolkit passes it to a script that it starts itself."""
    if isinstance(value, dict):
        text = ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    else:
        text = "" if value is None else str(value)
    return ["--" + name if len(name) > 1 else "-" + name, text]


if __name__ == "__main__":
    sys.exit(main(os.environ))
