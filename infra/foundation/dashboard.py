"""One page for the whole project: what was started, what failed, how long it took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

NAMESPACE = "AWS/Sagemaker/ModelBuildingPipeline"
DAY = 86_400
WIDTH, HEIGHT = 12, 7
"""The size that a graph has; a dashboard is 24 wide."""
GRAPHS = (
    ("Executions started", "ExecutionStarted", "Sum"),
    ("Executions failed", "ExecutionFailed", "Sum"),
    ("Executions stopped", "ExecutionStopped", "Sum"),
    ("Duration of an execution", "ExecutionDuration", "Average"),
)
"""Title, metric and statistic of each graph, with a line for each pipeline."""


def dashboard(
    scope: Construct, id: str, *, name: str, region: str, pipelines: Sequence[str]
) -> cloudwatch.CfnDashboard:
    """CloudWatch's dashboard of these pipelines, by name: they need not be there yet."""
    return cloudwatch.CfnDashboard(
        scope,
        id,
        dashboard_name=name,
        dashboard_body=json.dumps({"widgets": _widgets(region, pipelines)}),
    )


def _widgets(region: str, pipelines: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "type": "metric",
            "x": number % 2 * WIDTH,
            "y": number // 2 * HEIGHT,
            "width": WIDTH,
            "height": HEIGHT,
            "properties": {
                "title": title,
                "region": region,
                "view": "timeSeries",
                "stat": statistic,
                "period": DAY,
                "metrics": [
                    [NAMESPACE, metric, "PipelineName", pipeline, {"label": pipeline}]
                    for pipeline in pipelines
                ],
            },
        }
        for number, (title, metric, statistic) in enumerate(GRAPHS)
    ]
