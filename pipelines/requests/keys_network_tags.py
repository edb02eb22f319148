"""What an account asks of every job's request: encryption keys, a network, and tags.

Keys and networks are named where the deployment has any. The tags split a bill: `compiler` says
whether compilers are worth their money, the others whose money it was. A job that works for all
arms has `none` where a training job has the name of its arm.
"""

from __future__ import annotations

import re
from typing import Any

from compilegate.job.names import NO_ARM
from compilegate.pipelines.deployment import Deployment, Network
from compilegate.workload import Arm, Workload

# EC2's instance store documentation, read in November 2026. A `d` after the generation says that
# there are local disks (m5d, p4d, g4dn); these families have them without saying so.
_LOCAL_DISKS = re.compile(r"ml\.(?:[a-z]+\d+[a-z]*d[a-z]*|g5|gr?6e?|p5e?n?|p6[-\w]*|trn1n?|trn2)\.")


def has_local_disks(instance_type: str) -> bool:
    """Whether SageMaker puts everything on the instance's own disks, and makes no volume.

    Their hardware encrypts them, and a request that names a key for them is refused.
    """
    return _LOCAL_DISKS.match(instance_type) is not None


def volume_key(deployment: Deployment, instance_type: str) -> dict[str, str]:
    """`VolumeKmsKeyId`, where there is a key and a volume."""
    if deployment.kms_key is None or has_local_disks(instance_type):
        return {}
    return {"VolumeKmsKeyId": deployment.kms_key}


def output_key(deployment: Deployment) -> dict[str, str]:
    """`KmsKeyId` of what a job puts into the bucket."""
    return {} if deployment.kms_key is None else {"KmsKeyId": deployment.kms_key}


def training_network(deployment: Deployment) -> dict[str, Any]:
    """The members of a CreateTrainingJob request that place it in a network."""
    network = deployment.network
    if network is None:
        return {}
    isolation = {"EnableNetworkIsolation": True} if network.isolation else {}
    return {**_vpc(network), **isolation}


def processing_network(deployment: Deployment) -> dict[str, Any]:
    """The members of a CreateProcessingJob request that do so."""
    members = training_network(deployment)
    return {"NetworkConfig": members} if members else {}


def _vpc(network: Network) -> dict[str, Any]:
    if not network.subnets:
        return {}
    return {
        "VpcConfig": {
            "SecurityGroupIds": list(network.security_group_ids),
            "Subnets": list(network.subnets),
        }
    }


NO_COMPILER = "eager"


def training_tags(workload: Workload, arm_name: str, arm: Arm) -> list[dict[str, str]]:
    """The tags of a training job."""
    return _tags(workload, arm_name, arm.compiler, compiled=arm.compiler != NO_COMPILER)


def shared_tags(workload: Workload) -> list[dict[str, str]]:
    """The tags of a job that prepares for all arms, or judges them."""
    return _tags(workload, NO_ARM, compiler="none", compiled=False)


def _tags(workload: Workload, arm: str, compiler: str, *, compiled: bool) -> list[dict[str, str]]:
    tags = {
        "compilegate:workload": workload.name,
        "compilegate:arm": arm,
        "compilegate:compiler": compiler,
        "compiler": str(compiled).lower(),
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]
