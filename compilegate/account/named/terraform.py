"""The roles, the group, the pipeline and the schedule of a workload as Terraform's JSON. Pure.

Terraform reads `${` in any text of a `.tf.json` as an expression, so text that is meant as it
stands is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compilegate.access.role import Role
from compilegate.account.named.place import NamedPlace
from compilegate.workload import Workload
from compilegate.workload.file import Schedule


def terraform(place: NamedPlace, workload: Workload, roles: Mapping[str, Role]) -> dict[str, Any]:
    """A configuration that is complete but for bucket, key, repositories and provider."""
    label = workload.name.replace("-", "_")
    resources: dict[str, Any] = {
        "aws_iam_role": {
            f"{label}_{kind}": {
                "name": role.name,
                "description": _plain(role.description),
                "assume_role_policy": _plain(json.dumps(role.trust)),
            }
            for kind, role in roles.items()
        },
        "aws_iam_role_policy": {
            f"{label}_{kind}": {
                "name": "Permissions",
                "role": f"${{aws_iam_role.{label}_{kind}.id}}",
                "policy": _plain(json.dumps(role.policy)),
            }
            for kind, role in roles.items()
        },
        "aws_sagemaker_model_package_group": {
            label: {"model_package_group_name": place.names.model_package_group(workload)}
        },
        "aws_sagemaker_pipeline": {label: _pipeline(place, workload, label)},
    }
    if workload.schedule is not None:
        resources["aws_scheduler_schedule_group"] = {
            label: {"name": place.names.schedule(workload.name)}
        }
        resources["aws_scheduler_schedule"] = {
            label: _schedule(place, workload.name, workload.schedule, label)
        }
    return {
        "//": f"Written by: compilegate aws roles {workload.name} --format terraform",
        "resource": resources,
    }


def _pipeline(place: NamedPlace, workload: Workload, label: str) -> dict[str, Any]:
    name = place.names.pipeline(workload.name)
    most = workload.compute.max_parallel_steps
    return {
        "pipeline_name": name,
        "pipeline_display_name": name,
        "pipeline_description": _plain(workload.description),
        "role_arn": f"${{aws_iam_role.{label}_pipeline.arn}}",
        "pipeline_definition": f'${{file("${{path.module}}/{workload.name}.definition.json")}}',
        **(
            {}
            if most is None
            else {"parallelism_configuration": {"max_parallel_execution_steps": most}}
        ),
        # The service looks at what the role may do when the pipeline is made.
        "depends_on": [
            *(f"aws_iam_role_policy.{label}_{kind}" for kind in ("pipeline", "processing")),
            f"aws_iam_role_policy.{label}_training",
            f"aws_sagemaker_model_package_group.{label}",
        ],
    }


def _schedule(place: NamedPlace, name: str, schedule: Schedule, label: str) -> dict[str, Any]:
    return {
        "name": place.names.schedule(name),
        "group_name": f"${{aws_scheduler_schedule_group.{label}.name}}",
        "schedule_expression": schedule.expression,
        "schedule_expression_timezone": schedule.timezone,
        "state": "ENABLED" if schedule.enabled else "DISABLED",
        "flexible_time_window": {"mode": "OFF"},
        "target": {
            "arn": f"${{aws_sagemaker_pipeline.{label}.arn}}",
            "role_arn": f"${{aws_iam_role.{label}_schedule.arn}}",
            "sagemaker_pipeline_parameters": {
                "pipeline_parameter": [
                    {"name": name, "value": str(value)}
                    for name, value in schedule.parameters.given.items()
                ]
            },
        },
    }


def _plain(text: str) -> str:
    """Text that Terraform takes as it stands."""
    return text.replace("${", "$${").replace("%{", "%%{")
