"""What a profile or a job's evidence points to is there: rules of `compilegate check`."""

from __future__ import annotations

import pytest

from compilegate.check.rules.table import BY_NAME
from compilegate.job import names


@pytest.mark.parametrize("name", sorted(each for each in vars(names) if each.startswith("RULE_")))
def test_each_rule_that_is_pointed_to_exists(name: str) -> None:
    assert getattr(names, name) in BY_NAME
