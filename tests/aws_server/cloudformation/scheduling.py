"""EventBridge Scheduler's schedules and their groups."""

from __future__ import annotations

from typing import Any

from tests.aws_server.cloudformation.bridge import Bridge, Made, Properties, ReplacedBridge


class ScheduleGroup(ReplacedBridge):
    type = "AWS::Scheduler::ScheduleGroup"
    service = "scheduler"
    name_property = "Name"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        arn = client.create_schedule_group(**{**properties, "Name": name})["ScheduleGroupArn"]
        return Made(name, {"Arn": arn, "State": "ACTIVE"})

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        client.delete_schedule_group(Name=ref)


class Schedule(Bridge):
    type = "AWS::Scheduler::Schedule"
    service = "scheduler"
    name_property = "Name"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        return Made(
            name, {"Arn": client.create_schedule(**{**properties, "Name": name})["ScheduleArn"]}
        )

    @classmethod
    def update(cls, client: Any, made: Made, properties: Properties) -> Made:
        client.update_schedule(**{**properties, "Name": made.ref})
        return made

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        for schedule in client.list_schedules(NamePrefix=ref)["Schedules"]:
            if schedule["Name"] == ref:
                client.delete_schedule(GroupName=schedule["GroupName"], Name=ref)
