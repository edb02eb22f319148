"""Compiles a training script's graphs ahead of its training, on Trainium.

Runs `--training_script` with its arguments under `neuron_parallel_compile`, which goes through its
steps without calculating and compiles the graphs side by side into NEURON_COMPILE_CACHE_URL. Losses
mean nothing then, so the script may fail. A failure here ends nothing: training compiles as it
goes.
"""

import argparse
import os
import subprocess
import sys
from typing import Sequence

TOOL = "neuron_parallel_compile"
COMPILE_AFTER_ERRORS = "NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE"
"""Without it the tool compiles nothing of a script that ends with another status than 0."""


def main(arguments: Sequence[str]) -> int:
    """Run the tool; always 0, since nothing depends on it."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--training_script", required=True)
    known, own = parser.parse_known_args(list(arguments))
    command = [TOOL, sys.executable, known.training_script, *own]
    try:
        status = subprocess.call(command, env={**os.environ, COMPILE_AFTER_ERRORS: "1"})
    except OSError as error:
        print(f"{TOOL} cannot be started ({error.strerror}): training will compile as it goes")
        return 0
    if status != 0:
        print(f"{TOOL} ended with exit status {status}: training will compile as it goes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
