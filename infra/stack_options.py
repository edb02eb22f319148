"""What all stacks of a project have in common: where they go, what bounds their roles."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk

from compilegate.infra.project import Project


def stack_options(project: Project, env: cdk.Environment, description: str) -> dict[str, Any]:
    """Arguments of a stack. Which bootstrap it is deployed by is said once, to the whole app."""
    boundary = project.names.boundary
    return {
        "env": env,
        "description": description,
        "permissions_boundary": boundary and cdk.PermissionsBoundary.from_name(boundary),
    }
