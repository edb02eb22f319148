"""A budget of AWS that counts what carries a tag."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from constructs import Construct

PER_CENT = ((80, "ACTUAL"), (100, "ACTUAL"), (100, "FORECASTED"))
"""Shares of the limit at which people are told: of what was spent, or of what will be."""


def tagged_budget(
    scope: Construct, id: str, *, name: str, tag: str, value: str, usd: float, topic_arn: str
) -> budgets.CfnBudget:
    """A monthly budget; its name must be the only such one of the account, in all regions.

    AWS counts a tag from the day on which it is activated for cost allocation, which is done once
    for the account that pays (docs/aws.md).
    """
    return budgets.CfnBudget(
        scope,
        id,
        budget={
            "budgetName": name,
            "budgetType": "COST",
            "timeUnit": "MONTHLY",
            "budgetLimit": {"amount": usd, "unit": "USD"},
            "costFilters": {"TagKeyValue": [f"user:{tag}${value}"]},
        },
        notifications_with_subscribers=[
            {
                "notification": {
                    "notificationType": kind,
                    "comparisonOperator": "GREATER_THAN",
                    "threshold": per_cent,
                    "thresholdType": "PERCENTAGE",
                },
                "subscribers": [{"subscriptionType": "SNS", "address": topic_arn}],
            }
            for per_cent, kind in PER_CENT
        ],
    )
