"""Starts a training script on every GPU, in the images of PyTorch 1.10.2 and before.

Their training toolkit knows no other way: the request names this program, and the script to start
is the hyperparameter `training_script`, which comes along with all others as arguments.

`sm_dist` puts the arguments into a shell's command line as they are. So each is quoted for that
shell, and arrives at the script as it was declared.
"""

import shlex
import subprocess
import sys

if __name__ == "__main__":
    quoted = [shlex.quote(argument) for argument in sys.argv[1:]]
    sys.exit(subprocess.call([sys.executable, "-m", "torch_xla.distributed.sm_dist", *quoted]))
