"""What an account asks of every job's request: encryption keys, a network, and tags.

Keys and networks are named where the deployment has any. The tags split a bill: `compiler` says
whether compilers are worth their money, the others whose money it was. A job that works for all
arms has `none` where a training job has the name of its arm. The deployment's own tags come along,
since tag policies and budgets look at jobs, which take no tag of the pipeline's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from compilegate.document.expressions import parameter
from compilegate.document.model import Definition, Scalar
from compilegate.document.step_types import TRAINING
from compilegate.job.names import NO_ARM
from compilegate.pipelines.deployment import Deployment, Network
from compilegate.workload import Arm, Workload
from compilegate.workload.parameters import INSTANCE_TYPE

# EC2's instance store documentation, read in November 2026. A `d` after the generation says that
# there are local disks (m5d, p4d, g4dn); these families have them without saying so. Of g7 it is
# assumed: a key that is left out encrypts otherwise, one that may not be named fails the job.
_LOCAL_DISKS = re.compile(
    r"ml\.(?:[a-z]+\d+[a-z]*d[a-z]*|dl1|g5|gr?6[ef]?|g7e?|i\d\w*|p5e?n?|p6[-\w]*|trn1n?|trn2)\."
)


def has_local_disks(instance_type: str) -> bool:
    """Whether SageMaker puts everything on the instance's own disks, and makes no volume.

    Their hardware encrypts them, and a request that names a key for them is refused.
    """
    return _LOCAL_DISKS.match(instance_type) is not None


def volume_key_of(instance_type: str, key_arn: str | None) -> str | None:
    """The key that a request names for the volume of its instances: of a job, a batch transform or
    an endpoint. None where the instances have disks of their own, or there is no key."""
    return None if has_local_disks(instance_type) else key_arn


def volume_key(deployment: Deployment, instance_type: str) -> dict[str, str]:
    """`VolumeKmsKeyId`, where there is a key and a volume."""
    key = volume_key_of(instance_type, deployment.kms_key)
    return {} if key is None else {"VolumeKmsKeyId": key}


def volume_key_faults(definition: Definition, parameters: Mapping[str, Scalar]) -> Iterator[str]:
    """A sentence where the parameters of an execution give training steps an instance type of the
    other kind, with local disks or without, than their requests were made for.

    An execution cannot change the members of a request: with a type that has disks of its own the
    service refuses the key, and with one that has none the volume would go without it.
    """
    given = str(parameters.get(INSTANCE_TYPE))
    requests = [step.arguments for step in definition.steps if step.type == TRAINING]
    for request in requests:
        resources = request["ResourceConfig"]
        if resources["InstanceType"] != parameter(INSTANCE_TYPE):
            continue
        named = "VolumeKmsKeyId" in resources
        if "KmsKeyId" in request["OutputDataConfig"] and named == has_local_disks(given):
            kind = "without" if named else "with"
            yield (
                f"{INSTANCE_TYPE} is {given}, expected a type {kind} local disks, as the "
                "definition was compiled for: it decides whether the key for volumes is named. "
                "Set compute.instance_type in the workload's file, and deploy"
            )
            return


def output_key(deployment: Deployment) -> dict[str, str]:
    """`KmsKeyId` of what a job puts into the bucket."""
    return {} if deployment.kms_key is None else {"KmsKeyId": deployment.kms_key}


def training_network(deployment: Deployment, instances: int = 1) -> dict[str, Any]:
    """The members of a CreateTrainingJob request that place it in a network; what several instances
    send each other is encrypted."""
    isolation = {"EnableNetworkIsolation": True} if deployment.isolated else {}
    between = {"EnableInterContainerTrafficEncryption": True} if instances > 1 else {}
    return {**_vpc(deployment.network), **isolation, **between}


def processing_network(deployment: Deployment, *, offline: bool) -> dict[str, Any]:
    """The members of a CreateProcessingJob request that do so. An `offline` program calls nothing,
    and its container can reach nothing: the service moves its inputs and outputs."""
    isolation = {"EnableNetworkIsolation": True} if offline or deployment.isolated else {}
    members = {**_vpc(deployment.network), **isolation}
    return {"NetworkConfig": members} if members else {}


def _vpc(network: Network | None) -> dict[str, Any]:
    if network is None or not network.subnets:
        return {}
    return {
        "VpcConfig": {
            "SecurityGroupIds": list(network.security_group_ids),
            "Subnets": list(network.subnets),
        }
    }


NO_COMPILER = "eager"


def training_tags(
    deployment: Deployment, workload: Workload, arm_name: str, arm: Arm
) -> list[dict[str, str]]:
    """The tags of a training job."""
    compiled = arm.compiler != NO_COMPILER
    return _tags(deployment, workload, arm_name, arm.compiler, compiled=compiled)


def shared_tags(deployment: Deployment, workload: Workload) -> list[dict[str, str]]:
    """The tags of a job that prepares for all arms, or judges them."""
    return _tags(deployment, workload, NO_ARM, compiler="none", compiled=False)


def _tags(
    deployment: Deployment, workload: Workload, arm: str, compiler: str, *, compiled: bool
) -> list[dict[str, str]]:
    tags = {
        **deployment.tags,
        "compilegate:workload": workload.name,
        "compilegate:arm": arm,
        "compilegate:compiler": compiler,
        "compiler": str(compiled).lower(),
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]
