"""Compiles a training script's graphs ahead of its training, on Trainium.

Runs the script named by `--training_script` under `neuron_parallel_compile`, which goes through its
steps without calculating anything, and then compiles every graph that it met, side by side, into
the cache that NEURON_COMPILE_CACHE_URL names. The other arguments are the script's own.

What such a run computes means nothing: its loss may be zero, or no number, at which a script does
well to end. So the tool is told to compile what it met until then.

Ahead of time is only sooner: where the tool fails, training compiles as it goes, and shows in its
evidence what that took. So a failure is said here, and ends nothing.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import List, Sequence

TOOL = "neuron_parallel_compile"
COMPILE_AFTER_ERRORS = "NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE"
"""Without it the tool compiles nothing of a script that ends with another status than 0."""


def main(arguments: Sequence[str]) -> int:
    """Run the tool; always 0, since nothing depends on it."""
    command = extraction_command(arguments)
    environment = {**os.environ, "PYTHONPATH": _import_path(), COMPILE_AFTER_ERRORS: "1"}
    try:
        status = subprocess.call(command, env=environment)
    except OSError as error:
        print(f"{TOOL} cannot be started ({error.strerror}): training will compile as it goes")
        return 0
    if status != 0:
        print(f"{TOOL} ended with exit status {status}: training will compile as it goes")
    return 0


def extraction_command(arguments: Sequence[str]) -> List[str]:
    """The tool, and behind it the script with the arguments that are its own."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--training_script", required=True)
    known, own = parser.parse_known_args(list(arguments))
    return [TOOL, sys.executable, known.training_script, *own]


def _import_path() -> str:
    """With the folder of the source archive, from which the script imports."""
    root = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH")
    return root if not inherited else root + os.pathsep + inherited


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
