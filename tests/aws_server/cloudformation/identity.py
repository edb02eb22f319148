"""IAM's providers of OpenID Connect."""

from __future__ import annotations

from typing import Any

from tests.aws_server.cloudformation.bridge import Made, Properties, ReplacedBridge


class OIDCProvider(ReplacedBridge):
    type = "AWS::IAM::OIDCProvider"
    service = "iam"

    @classmethod
    def create(cls, client: Any, name: str, properties: Properties) -> Made:
        arn = client.create_open_id_connect_provider(
            Url=properties["Url"],
            ClientIDList=properties.get("ClientIdList", []),
            ThumbprintList=properties.get("ThumbprintList", []),
        )["OpenIDConnectProviderArn"]
        return Made(arn, {"Arn": arn})

    @classmethod
    def delete(cls, client: Any, ref: str) -> None:
        client.delete_open_id_connect_provider(OpenIDConnectProviderArn=ref)
