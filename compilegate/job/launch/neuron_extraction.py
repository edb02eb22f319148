"""Compiles a training script's graphs ahead of its training, on Trainium.

Runs the script named by `--training_script` under `neuron_parallel_compile`, which goes through its
steps without calculating anything, and then compiles every graph that it met, side by side, into
the cache that NEURON_COMPILE_CACHE_URL names. The other arguments are the script's own.

What such a run computes means nothing: its loss may be zero, or no number, at which a script does
well to end. So the tool is set to compile what it met until then. Where the tool itself fails,
training compiles as it goes, and its evidence shows what that took: a failure here ends nothing.
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
