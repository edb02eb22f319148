"""How the training code reaches SageMaker's training toolkit, which starts it in the container."""

from __future__ import annotations

import json
from typing import Any

from compilegate.pipelines.deployment import Deployment, Sources, object_name

CHANNEL = "code"


def toolkit_parameters(deployment: Deployment, sources: Sources, entry: str) -> dict[str, str]:
    """What SageMaker's training toolkit reads to start the script `entry` of the archive; it
    expects strings quoted as JSON."""
    archive = sources.training_archive
    if deployment.isolated:
        archive = f"/opt/ml/input/data/{CHANNEL}/{object_name(archive)}"
    return {
        "sagemaker_program": json.dumps(entry),
        "sagemaker_submit_directory": json.dumps(archive),
        "sagemaker_region": json.dumps(deployment.region),
        "sagemaker_container_log_level": "20",
    }


def code_channels(deployment: Deployment, sources: Sources) -> list[dict[str, Any]]:
    """The toolkit fetches the archive itself, which it cannot in isolation: there the service
    brings it, as a channel."""
    return [channel(CHANNEL, sources.training_archive)] if deployment.isolated else []


def channel(name: str, uri: Any) -> dict[str, Any]:
    """An input of a training job: what lies at the URI, in /opt/ml/input/data/NAME."""
    return {
        "ChannelName": name,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": uri,
                "S3DataDistributionType": "FullyReplicated",
            }
        },
    }
