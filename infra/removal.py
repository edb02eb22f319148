"""What becomes of a resource that holds work when its stack is removed."""

from __future__ import annotations

import aws_cdk as cdk

from compilegate.account.settings.declaration import Storage


def removal_policy(storage: Storage) -> cdk.RemovalPolicy:
    """Kept or destroyed, as the settings say.

    What a failed first deployment made is destroyed in any case: it holds nothing yet, and its
    name would be in the way of the next attempt.
    """
    if storage.retain:
        return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return cdk.RemovalPolicy.DESTROY
