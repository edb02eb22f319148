"""Starts a training script on every GPU, in the images of PyTorch 1.10.2 and before.

Their training toolkit knows no other way: the request names this program, and the script to start
is the hyperparameter `training_script`, which comes along with all others as arguments.
"""

import subprocess
import sys

if __name__ == "__main__":
    command = [sys.executable, "-m", "torch_xla.distributed.sm_dist", *sys.argv[1:]]
    sys.exit(subprocess.call(command))
