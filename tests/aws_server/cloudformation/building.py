"""CodeBuild's projects."""

from __future__ import annotations

from typing import Any

from tests.aws_server.cloudformation.bridge import Made, Properties, ReplacedBridge


class Project(ReplacedBridge):
    type = "AWS::CodeBuild::Project"
    service = "codebuild"
    name_property = "Name"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        request = _camel_case({**properties, "Name": name})
        source = request["source"]
        if "buildSpec" in source:
            source["buildspec"] = source.pop("buildSpec")
        # moto wants a location even of a project that has no source.
        source.setdefault("location", "none")
        # What only CloudFormation knows: triggers, visibility.
        known = client.meta.service_model.operation_model("CreateProject").input_shape.members
        project = client.create_project(
            **{key: value for key, value in request.items() if key in known}
        )["project"]
        return Made(name, {"Arn": project["arn"]})

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        client.delete_project(name=ref)


def _camel_case(value: Any) -> Any:
    """Templates say `ServiceRole` where the service's own interface says `serviceRole`."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _camel_case(item) for key, item in value.items()}
    return [_camel_case(item) for item in value] if isinstance(value, list) else value
