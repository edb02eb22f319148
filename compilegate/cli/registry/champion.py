"""The champion of a workload on this machine: the model that was approved last.

In an account the releaser does the same, whoever approves and however.
"""

from __future__ import annotations

from compilegate.access.layout import registered_prefix
from compilegate.cli.registry.places import Here, Model, Place
from compilegate.job.names import CHALLENGER_ARM, MODEL_ARCHIVE
from compilegate.local import ObjectStore

APPROVED = "Approved"


def keep_champion(place: Place, changed: Model) -> str | None:
    """After a decision about a challenger: put the champion where the next execution looks for it;
    says which it is. None where nothing follows from the decision here."""
    workload = changed.metadata.get("workload")
    if not isinstance(place, Here) or changed.metadata.get("arm") != CHALLENGER_ARM:
        return None
    approved = [each for each in place.models(changed.group) if each.approval == APPROVED]
    store = ObjectStore(place.home / "s3")
    bucket = changed.uris[0].removeprefix("s3://").partition("/")[0]
    target = f"s3://{bucket}/{registered_prefix(str(workload))}model/{MODEL_ARCHIVE}"
    if not approved:
        store.remove(target)
        return f"{workload} has no champion: the next model is registered without a comparison"
    last = max(approved, key=lambda each: (_decided(each), each.version))
    source = store.path(last.uris[0])
    if not source.is_file():
        return f"{last.name} would be the champion of {workload}, but its archive is gone: {source}"
    store.upload(source, target)
    return f"{last.name} is the champion that the next model of {workload} is compared with"


def _decided(model: Model) -> str:
    """When it was decided about; the registry keeps it for each version."""
    return str(model.description.get("LastModifiedTime", ""))
