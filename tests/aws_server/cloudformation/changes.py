"""Updates by UpdateStack take until a test says how they end; moto's are complete at once.

Change sets, with which the CDK deploys, are left as they are.
"""

from __future__ import annotations

from typing import Any

from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import cloudformation_backends
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult


def updates_take_time() -> None:
    """What an update would do is kept with the stack until `end_update`."""

    def update_stack(self: Any) -> ActionResult:
        stack = self.cloudformation_backend.get_stack(self._get_param("StackName"))
        if stack.status.endswith("_IN_PROGRESS"):
            raise ValidationError(
                message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated."
            )
        given = self._get_param("Parameters", [])
        self._validate_different_update(given, stack.template, stack)
        stack.coming = given
        _add(stack, "UPDATE_IN_PROGRESS", "User Initiated", self._get_param("ClientRequestToken"))
        return ActionResult({"StackId": stack.stack_id})

    CloudFormationResponse.update_stack = update_stack


def end_update(account: str, region: str, name: str, how: str, reason: str) -> None:
    """End an update as `UPDATE_COMPLETE`, `UPDATE_ROLLBACK_COMPLETE` or `UPDATE_ROLLBACK_FAILED`;
    an alarm went off for this reason."""
    backend = cloudformation_backends[account][region]
    stack = backend.get_stack(name)
    token = stack.events[-1].client_request_token
    if how == "UPDATE_COMPLETE":
        began = len(stack.events)
        backend.update_stack(name, stack.template, stack.role_arn, stack.coming, None)
        del stack.events[began:]
    else:
        _add(stack, "UPDATE_ROLLBACK_IN_PROGRESS", reason, token)
    _add(stack, how, None, token)


def _add(stack: Any, status: str, reason: str | None, token: str | None) -> None:
    stack.status = status
    stack._add_stack_event(status, resource_status_reason=reason)
    stack.events[-1].client_request_token = token
