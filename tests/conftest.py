"""What all tests share."""

import os
import signal
from pathlib import Path

from hypothesis import settings

# How long an example takes says nothing about the code: the machine may be busy.
settings.register_profile("compilegate", deadline=None)
settings.load_profile("compilegate")

# A shell starts what it puts into the background with Ctrl-C ignored, and children inherit that:
# the tests that interrupt a command would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A g++ that keeps what it compiled: every job that compiles would else compile the same again.
os.environ["PATH"] = os.pathsep.join(
    [str(Path(__file__).parent / "compilers"), os.environ.get("PATH", os.defpath)]
)

# One server that stands in for AWS, for the tests of every room that speaks to it.
pytest_plugins = ["tests.aws_server.fixtures"]
