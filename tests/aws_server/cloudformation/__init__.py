"""CloudFormation resource types that moto lacks, and repairs of how moto deploys stacks.

A `Bridge` is one resource type: it turns a template's properties into calls of boto3 against this
same server, so that botocore checks what the template says as it would check a caller. `repairs` is
what the CDK's CLI needs of stacks and change sets that moto 5.2 gets wrong.
"""

from __future__ import annotations

import os

from tests.aws_server.cloudformation import (  # noqa: F401  each declares its resource types
    building,
    identity,
    modelling,
    policies,
    scheduling,
    serving,
    watching,
)
from tests.aws_server.cloudformation.bridge import register_all
from tests.aws_server.cloudformation.changes import updates_take_time
from tests.aws_server.cloudformation.repairs import repair_moto


def install(url: str) -> None:
    """Teach this process's moto; the bridges call the server at `url`, which is this process."""
    os.environ.update(
        AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="bridge", AWS_SECRET_ACCESS_KEY="bridge"
    )
    register_all()
    repair_moto()
    updates_take_time()
