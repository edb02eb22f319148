"""What all tests share."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from compilegate.job.contract import INDUCTOR_CACHE_VARIABLE

# How long an example takes, or is drawn, says nothing about the code: the machine may be busy.
settings.register_profile(
    "compilegate", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("compilegate")

# A shell starts what it puts into the background with Ctrl-C ignored, and children inherit that:
# the tests that interrupt a command would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A g++ that keeps what it compiled: every job that compiles would else compile the same again.
os.environ["PATH"] = os.pathsep.join(
    [str(Path(__file__).parent / "compilers"), os.environ.get("PATH", os.defpath)]
)
COMPILED = Path(__file__).parents[1] / ".cache" / "tests" / "compiled"
COMPILED.mkdir(parents=True, exist_ok=True)
os.environ["COMPILEGATE_SHARE"] = str(COMPILED)

# Keras computes with TensorFlow unless it is told otherwise, and torch is what is here.
os.environ.setdefault("KERAS_BACKEND", "torch")


@pytest.fixture(autouse=True)
def _no_cache_left_behind() -> Iterator[None]:
    """What a test compiles in this process has a folder of its own, which the environment names:
    the jobs that later tests start would take it for one that they were given."""
    yield
    os.environ.pop(INDUCTOR_CACHE_VARIABLE, None)


# One server that stands in for AWS, for the tests of every room that speaks to it.
pytest_plugins = ["tests.aws_server.client"]


LONG = ("slow", "long")
ALL_SLOW = re.compile(r"^pytestmark = .*\bmark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without the slow tests, a file that has no others is not even imported: the libraries that
    such files import take half a minute."""
    without = "not slow" in config.option.markexpr and collection_path.suffix == ".py"
    return (without and bool(ALL_SLOW.search(collection_path.read_text("utf-8")))) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: workers that pass the quick ones last end together."""
    slow = {item.path for item in items if any(map(item.get_closest_marker, LONG))}
    items.sort(key=lambda item: item.path not in slow)
