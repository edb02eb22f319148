"""Keys in the bucket, for roles and lifecycle rules. Pure."""

from __future__ import annotations

from functools import partial

PREFIX = "compilegate"
"""What every key begins with, unless a deployment says otherwise."""
CODE_PREFIX = f"{PREFIX}/source/"
"""Code, where the project's own bucket holds it: each object is named by its digest."""


def assets_prefix(project: str, workload: str) -> str:
    """A workload's code in the bucket that the CDK uploads to: several projects may share it."""
    return f"{PREFIX}/{project}/{workload}/"


def workload_prefix(workload: str) -> str:
    """Everything that belongs to a workload, but for its raw data."""
    return f"{PREFIX}/workloads/{workload}/"


def _within(kind: str, workload: str) -> str:
    return f"{workload_prefix(workload)}{kind}/"


training_prefix = partial(_within, "training")
"""What training jobs write: models and evidence."""
checkpoints_prefix = partial(_within, "checkpoints")
"""What training jobs leave for later ones: checkpoints and compiled code. Nobody else may write
here, because what lies here gets executed."""
executions_prefix = partial(_within, "executions")
"""What processing jobs write for their execution: prepared data, gathered evidence."""
registered_prefix = partial(_within, "registered")
"""What processing jobs keep of the model that was registered last: its evidence."""
models_prefix = partial(_within, "models")
"""The models that were registered. They never expire."""
verdicts_prefix = partial(_within, "verdicts")
"""What the gate decided in each execution, and its reports. They never expire."""
deliveries_prefix = partial(_within, "deliveries")
"""What the keeper knows of deliveries: which came, and which still wait."""
notices_prefix = partial(_within, "notices")
"""What the keeper has sent, so that nothing is sent twice."""


def data_prefix(workload: str | None = None) -> str:
    """Raw data, staged before an execution: of one workload, or of all."""
    return f"{PREFIX}/data/" if workload is None else f"{PREFIX}/data/{workload}/"


def requests_prefix(workload: str) -> str:
    """Default prefix of a batch transform's requests."""
    return f"requests/{workload}/"


def answers_prefix(workload: str) -> str:
    """What batch transforms answer."""
    return f"answers/{workload}/"
