"""A workload of which everything is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compilegate.advice import Facts
from tests.advice.declared import bert, facts


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Facts]:
    """The first workload with everything known, but for what is changed."""

    tmp_path = tmp_path_factory.mktemp("workloads")

    def made(advice: str = "", **changes: str) -> Facts:
        given = advice or 'runs_per_week = 3\nhours = 6\nbottleneck = "compute"'
        return facts(bert(tmp_path, given, **changes))

    return made
