"""Starts a training script on every GPU, in the images of PyTorch 1.10.2 and before.

Their training toolkit knows no other way: the request names this program, and the script to start
is the hyperparameter `training_script`, which comes along with all others as arguments.

AWS's launcher, `torch_xla.distributed.sm_dist`, puts arguments into a shell's command line, and
makes `--flag` of `--flag True` and nothing of `--flag False`. So the script's arguments do not go
through it: it is told to start `script_process.py`, which finds them in a variable.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from compilegate.job.launch import script_process
from compilegate.job.machine.gpus import name_gpus
from compilegate.job.names import (
    HYPERPARAMETERS_VARIABLE,
    SCRIPT_ARGUMENTS_VARIABLE,
    SCRIPT_VARIABLE,
)


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the launcher to its end; returns the exit status."""
    script, own = _script_of(arguments, environment)
    if script is None:
        print("error: the hyperparameter training_script is missing", file=sys.stderr)
        return 2
    told = {
        **environment,
        SCRIPT_VARIABLE: script,
        SCRIPT_ARGUMENTS_VARIABLE: json.dumps(own),
    }
    name_gpus(told)
    launcher = [sys.executable, "-m", "torch_xla.distributed.sm_dist", "--training_script"]
    return subprocess.call([*launcher, script_process.__file__], env=told)


def _script_of(
    arguments: Sequence[str], environment: Mapping[str, str]
) -> Tuple[Optional[str], List[str]]:
    """The script, and its arguments as they were declared."""
    declared: Dict[str, Any] = json.loads(environment.get(HYPERPARAMETERS_VARIABLE) or "{}")
    if "training_script" in declared:
        script = str(declared.pop("training_script"))
        return script, [word for name in sorted(declared) for word in _told(name, declared[name])]
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--training_script")
    known, own = parser.parse_known_args(list(arguments))
    return known.training_script, own


def _told(name: str, value: Any) -> List[str]:
    """One hyperparameter, as the toolkit passes it to a script that it starts itself."""
    if isinstance(value, dict):
        text = ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    else:
        text = "" if value is None else str(value)
    return ["--" + name if len(name) > 1 else "-" + name, text]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
