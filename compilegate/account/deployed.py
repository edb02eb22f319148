"""The outputs of the deployed stacks. Nothing about the account is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.account.errors import NotDeployedError, absent_is, asking
from compilegate.account.session import AwsSession

_DEPLOY = "deploy it with: make deploy"


@dataclass(frozen=True)
class StackOutputs:
    stack: str
    values: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        if name not in self.values:
            raise NotDeployedError(
                f"the stack {self.stack} has no output {name}: its deployment failed, or is of "
                f"another version of this project; {_DEPLOY}"
            )
        return self.values[name]


def read_outputs(session: AwsSession, stack: str) -> StackOutputs:
    """The outputs of a deployed stack. Raises NotDeployedError when there is none, AwsError."""
    missing = NotDeployedError(
        f"there is no stack {stack} in account {session.account}, {session.region}; {_DEPLOY}"
    )
    with asking(f"read the stack {stack}"), absent_is(missing):
        client = session.client("cloudformation")
        (described,) = client.describe_stacks(StackName=stack)["Stacks"]
    outputs = described.get("Outputs", [])
    return StackOutputs(stack, {each["OutputKey"]: each["OutputValue"] for each in outputs})
