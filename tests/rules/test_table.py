"""The table of rules, and the three commands that stand on it."""

from __future__ import annotations

import pytest

from compilegate.advice.rules import rules as advice_rules
from compilegate.check.rules import RULES
from compilegate.diagnose import profile
from compilegate.job.evidence import record
from compilegate.rules import COMPILERS, Measured, table

KINDS = {*profile.WORTH_NAMING, *profile.KINDS}


def test_check_finds_every_rule_of_the_table_and_no_other() -> None:
    assert sorted(each.name for each in RULES) == sorted(table().rules)


def test_every_rule_bears_on_one_consideration_of_advice() -> None:
    asked = {each.name: each.rules for each in advice_rules().considerations}
    assert {each.consideration for each in table().rules.values()} <= set(asked)
    assert sorted(name for each in asked.values() for name in each) == sorted(table().rules)


def test_a_profile_has_a_remedy_for_each_thing_it_finds() -> None:
    assert set(table().measured) == KINDS


@pytest.mark.parametrize("measured", table().measured.values(), ids=lambda each: each.kind)
def test_what_is_measured_points_to_rules_that_there_are(measured: Measured) -> None:
    assert set(measured.rules) <= set(table().rules)
    assert measured.remedy.endswith(".")
    assert measured.compiled_remedy.endswith(".")


def test_the_rules_that_jobs_point_to_are_in_the_table() -> None:
    assert set(record.RULES.values()) <= set(table().rules)


def test_each_rule_says_what_it_costs_what_to_do_and_where_that_is_written() -> None:
    for each in table().rules.values():
        assert each.severity in {"error", "warning", "note"}
        assert each.compilers
        assert set(each.compilers) <= set(COMPILERS)
        assert each.why.endswith(".")
        assert each.fix.endswith(".")
        assert each.page.startswith("https://")
