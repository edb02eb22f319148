"""What moto 5.2 gets wrong about stacks, change sets and the resources that it does know.

Each function repairs one thing and says which. They reach into moto, so an update of it may make
one of them unnecessary or wrong; the deployment test then says so.
"""

from __future__ import annotations

import json
from typing import Any

import boto3
from moto.cloudformation import models as stacks
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend, cloudformation_backends
from moto.cloudformation.parsing import ResourceMap
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.models import EC2Backend
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.kms.models import Key
from moto.s3.models import FakeBucket


def repair_moto() -> None:
    """Make all repairs."""
    change_sets_belong_to_their_stack()
    change_sets_keep_outputs()
    updates_keep_parameters()
    updates_reach_what_depends_on_others()
    deletion_makes_nothing_anew()
    networks_go_whole()
    retained_resources_stay()
    bucket_policies_have_conditions()
    buckets_get_their_settings()
    keys_are_made_as_templates_say()
    updates_take_time()


def change_sets_belong_to_their_stack() -> None:
    """moto looks change sets up by their bare name; the CDK gives those of all stacks one name."""

    def found(response: Any) -> str | None:
        name, stack = response._get_param("ChangeSetName"), response._get_param("StackName")
        sets = response.cloudformation_backend.change_sets
        if name in sets:
            return str(name)
        ids = [
            id
            for id, item in sets.items()
            if item.change_set_name == name and stack in (item.stack.name, item.stack_id)
        ]
        return ids[-1] if ids else None

    def required(response: Any) -> str:
        id = found(response)
        if id is None:
            name = response._get_param("ChangeSetName")
            error = ValidationError(message=f"ChangeSet [{name}] does not exist")
            error.code = error.error_type = "ChangeSetNotFound"
            raise error
        return id

    def describe_change_set(self: Any) -> ActionResult:
        backend = self.cloudformation_backend
        return ActionResult(backend.describe_change_set(change_set_name=required(self)))

    def execute_change_set(self: Any) -> EmptyResult:
        self.cloudformation_backend.execute_change_set(
            change_set_name=required(self), stack_name=self._get_param("StackName")
        )
        return EmptyResult()

    def delete_change_set(self: Any) -> EmptyResult:
        while (id := found(self)) is not None:
            del self.cloudformation_backend.change_sets[id]
        return EmptyResult()

    CloudFormationResponse.describe_change_set = describe_change_set
    CloudFormationResponse.execute_change_set = execute_change_set
    CloudFormationResponse.delete_change_set = delete_change_set


def change_sets_keep_outputs() -> None:
    """moto forgets outputs, exports and imports of stacks that a change set made or updated."""
    original = CloudFormationBackend.execute_change_set

    def execute_change_set(self: Any, change_set_name: str, stack_name: str | None = None) -> None:
        stack = self.stacks[self.describe_change_set(change_set_name).stack_id]
        stack.cross_stack_resources = self.exports
        stack.resource_map.cross_stack_resources = self.exports
        original(self, change_set_name, stack_name)
        stack._parse_template()
        stack.output_map = stack._create_output_map()
        mine = [
            name for name, item in self.exports.items() if item.exporting_stack_id == stack.stack_id
        ]
        for name in mine:
            self.exports.pop(name)
        for export in stack.exports:
            self.exports[export.name] = export

    CloudFormationBackend.execute_change_set = execute_change_set


def updates_keep_parameters() -> None:
    """An update that keeps the value of a parameter hands moto the value that was looked up in SSM
    before, and moto looks it up again; one that only has a default is a KeyError."""
    look_up = ResourceMap.parse_ssm_parameter
    resolve = CloudFormationBackend._resolve_update_parameters

    def parse_ssm_parameter(self: Any, value: str, value_type: str) -> str:
        try:
            return look_up(self, value, value_type)
        except AttributeError:
            return value

    def resolve_update_parameters(self: Any, instance: Any, incoming_params: Any) -> Any:
        known = [
            item
            for item in incoming_params
            if not item.get("UsePreviousValue") or item["ParameterKey"] in instance.parameters
        ]
        return resolve(self, instance=instance, incoming_params=known)

    ResourceMap.parse_ssm_parameter = parse_ssm_parameter
    CloudFormationBackend._resolve_update_parameters = resolve_update_parameters


def updates_reach_what_depends_on_others() -> None:
    """moto updates what names a changed parameter, and not what names a changed resource."""
    original = ResourceMap.build_resource_diff

    def build_resource_diff(self: Any, other_template: Any, parameters: Any = None) -> Any:
        found = original(self, other_template, parameters)
        changed = found["Modify"]
        for name in changed:  # which grows
            for other, resource in other_template["Resources"].items():
                text = json.dumps(resource, default=str)
                named = f'"Fn::GetAtt": ["{name}",' in text or f'"Ref": "{name}"' in text
                if named and parameters and other not in [*changed, *found["Add"]]:
                    changed.append(other)
        return found

    ResourceMap.build_resource_diff = build_resource_diff


def deletion_makes_nothing_anew() -> None:
    """moto's exports are lazy: those of a deleted stack make again what they mention."""
    original = stacks.Stack.delete

    def delete(self: Any) -> None:
        list(self.exports)
        original(self)
        self.output_map = type("NoOutputs", (dict,), {"exports": []})()

    stacks.Stack.delete = delete


def networks_go_whole() -> None:
    """moto's stacks leave a VPC's route tables, endpoints and flow logs, and then the VPC."""
    original = EC2Backend.delete_vpc

    def delete_vpc(self: Any, vpc_id: str) -> Any:
        for tables in (self.route_tables, self.vpc_end_points):
            for id in [id for id, item in tables.items() if item.vpc_id == vpc_id]:
                if not getattr(tables[id], "main_association_id", None):
                    del tables[id]
        for id in [id for id, log in self.flow_logs.items() if log.resource_id == vpc_id]:
            del self.flow_logs[id]
        return original(self, vpc_id)

    EC2Backend.delete_vpc = delete_vpc


def retained_resources_stay() -> None:
    """moto knows `Retain` alone, and only when the whole stack is deleted."""
    original = ResourceMap._delete_resource

    def delete_resource(self: Any, resource: Any, definition: Any) -> None:
        if definition.get("DeletionPolicy") not in {"Retain", "RetainExceptOnCreate"}:
            original(self, resource, definition)

    ResourceMap._delete_resource = delete_resource


def bucket_policies_have_conditions() -> None:
    """moto evaluates bucket policies without their conditions, so that "deny what is not TLS"
    denies everything. The stored policy stays whole; only unconditional statements are evaluated.
    """

    def get_permission(self: Any, action: str, resource: str) -> PermissionResult:
        if self.policy is None:
            return PermissionResult.NEUTRAL
        document = json.loads(self.policy.decode())
        document["Statement"] = [
            statement for statement in document["Statement"] if "Condition" not in statement
        ]
        if not document["Statement"]:
            return PermissionResult.NEUTRAL
        return IAMPolicy(json.dumps(document)).is_action_permitted(action, resource)

    FakeBucket.get_permission = get_permission


def buckets_get_their_settings() -> None:
    """moto makes buckets with encryption and tags alone, and leaves the other properties out."""
    original = FakeBucket.create_from_cloudformation_json.__func__

    def create(
        cls: Any, name: str, template: Any, account: str, region: str, **options: Any
    ) -> Any:
        bucket = original(cls, name, template, account, region, **options)
        properties = template.get("Properties", {})
        client = boto3.client("s3", region_name=region)
        if "VersioningConfiguration" in properties:
            client.put_bucket_versioning(
                Bucket=bucket.name, VersioningConfiguration=properties["VersioningConfiguration"]
            )
        if "PublicAccessBlockConfiguration" in properties:
            client.put_public_access_block(
                Bucket=bucket.name,
                PublicAccessBlockConfiguration={
                    key: str(value).lower() == "true"
                    for key, value in properties["PublicAccessBlockConfiguration"].items()
                },
            )
        return bucket

    FakeBucket.create_from_cloudformation_json = classmethod(create)


def keys_are_made_as_templates_say() -> None:
    """moto hands the service's own calls a template's policy, which is no text, and its tags, which
    the service spells TagKey and TagValue."""
    original = Key.create_from_cloudformation_json.__func__

    def create(cls: Any, name: str, template: Any, *where: str, **options: Any) -> Any:
        properties = dict(template["Properties"])
        properties["KeyPolicy"] = json.dumps(properties["KeyPolicy"])
        properties["Tags"] = [
            {"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in properties.get("Tags", [])
        ]
        return original(cls, name, {**template, "Properties": properties}, *where, **options)

    Key.create_from_cloudformation_json = classmethod(create)


def updates_take_time() -> None:
    """moto's UpdateStack is complete at once; here an update waits for `end_update`. Change sets,
    with which the CDK deploys, stay as they are."""

    def update_stack(self: Any) -> ActionResult:
        stack = self.cloudformation_backend.get_stack(self._get_param("StackName"))
        if stack.status.endswith("_IN_PROGRESS"):
            raise ValidationError(
                message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated."
            )
        given = self._get_param("Parameters", [])
        self._validate_different_update(given, stack.template, stack)
        stack.coming = given
        _add_event(
            stack, "UPDATE_IN_PROGRESS", "User Initiated", self._get_param("ClientRequestToken")
        )
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
        _add_event(stack, "UPDATE_ROLLBACK_IN_PROGRESS", reason, token)
    _add_event(stack, how, None, token)


def _add_event(stack: Any, status: str, reason: str | None, token: str | None) -> None:
    stack.status = status
    stack._add_stack_event(status, resource_status_reason=reason)
    stack.events[-1].client_request_token = token
