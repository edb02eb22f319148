"""Quotas of an account that many workloads together would exceed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from compilegate.infra.limits.quotas import LIFECYCLE_RULE, QUOTAS, quota_warnings, resources_of

from compilegate.workload import read_workload
from tests.infra.assembly import PROJECT, Assembly

DECLARED = PROJECT / "tests" / "infra" / "project" / "workloads"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["topics", "watched"])
def test_what_counts_against_quotas_is_what_the_stack_has(name: str, assembly: Assembly) -> None:
    stack = f"compilegate-workload-{name}"
    made = Counter(resource.type for resource in assembly.resources(stack))
    made["AWS::CloudFormation::Stack"] = 1
    made[LIFECYCLE_RULE] = sum(
        rule["Id"].endswith(f"-of-{name}")
        for resource in assembly.resources("compilegate-foundation")
        if resource.type == "AWS::S3::Bucket"
        for rule in resource.properties["LifecycleConfiguration"]["Rules"]
    )
    counted = resources_of(read_workload(DECLARED / f"{name}.toml"))
    assert counted == Counter({quota.type: made[quota.type] for quota in QUOTAS})


def test_fifty_workloads_that_start_on_new_data_are_told_of_rules_and_nothing_else() -> None:
    workload = read_workload(DECLARED / "topics.toml")
    fifty = [replace(workload, name=f"topics-{number}") for number in range(50)]
    assert quota_warnings(fifty) == []
    (said,) = quota_warnings([*fifty, *fifty])
    assert said == (
        "EventBridge (CloudWatch Events): Rules, of one event bus: the workloads take 500, a new "
        "account has 300; ask for more in the Service Quotas console before you deploy"
    )
