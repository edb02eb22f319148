"""What all tests of the probes share."""

import logging
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def one_quiet_thread() -> Iterator[None]:
    """So that eager repeats itself to the last bit, and pytest does not keep what dynamo traces."""
    threads, trace = torch.get_num_threads(), logging.getLogger("torch.__trace")
    torch.set_num_threads(1)
    trace.propagate = False
    yield
    trace.propagate = True
    torch.set_num_threads(threads)
