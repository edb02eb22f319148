"""Where things lie in the bucket: what roles and lifecycle rules need to know. Pure."""

from __future__ import annotations

PREFIX = "compilegate"
"""What every key begins with, unless a deployment says otherwise."""


CODE_PREFIX = f"{PREFIX}/source/"
"""Code, where the project's own bucket holds it: each object is named by its digest."""


def assets_prefix(project: str, workload: str) -> str:
    """A workload's code in the bucket that the CDK uploads to: several projects may share it."""
    return f"{PREFIX}/{project}/{workload}/"


def training_prefix(workload: str) -> str:
    """What training jobs write: models and evidence."""
    return f"{PREFIX}/workloads/{workload}/training/"


def checkpoints_prefix(workload: str) -> str:
    """What training jobs leave for later ones: checkpoints and compiled code. Nobody else may
    write here, because what lies here gets executed."""
    return f"{PREFIX}/workloads/{workload}/checkpoints/"


def executions_prefix(workload: str) -> str:
    """What processing jobs write for their execution: prepared data, gathered evidence."""
    return f"{PREFIX}/workloads/{workload}/executions/"


def registered_prefix(workload: str) -> str:
    """What processing jobs keep of the model that was registered last: its evidence."""
    return f"{PREFIX}/workloads/{workload}/registered/"


def models_prefix(workload: str) -> str:
    """The models that were registered. They never expire."""
    return f"{PREFIX}/workloads/{workload}/models/"


def verdicts_prefix(workload: str) -> str:
    """What the gate decided in each execution, and its reports. They never expire."""
    return f"{PREFIX}/workloads/{workload}/verdicts/"


def workload_prefix(workload: str) -> str:
    """Everything that belongs to a workload, but for its raw data."""
    return f"{PREFIX}/workloads/{workload}/"


def data_prefix(workload: str | None = None) -> str:
    """Raw data, staged before an execution: of one workload, or of all."""
    return f"{PREFIX}/data/" if workload is None else f"{PREFIX}/data/{workload}/"


def deliveries_prefix(workload: str) -> str:
    """What the keeper knows of deliveries: which came, and which still wait."""
    return f"{PREFIX}/workloads/{workload}/deliveries/"


def notices_prefix(workload: str) -> str:
    """What the keeper has sent, so that nothing is sent twice."""
    return f"{PREFIX}/workloads/{workload}/notices/"


def requests_prefix(workload: str) -> str:
    """Where a batch transform finds its requests, unless the workload says otherwise."""
    return f"requests/{workload}/"


def answers_prefix(workload: str) -> str:
    """What batch transforms answer."""
    return f"answers/{workload}/"
