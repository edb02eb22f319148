"""What happens to a resource that holds data when its stack is removed."""

from __future__ import annotations

import aws_cdk as cdk

from compilegate.account.settings.declaration import Storage


def removal_policy(storage: Storage) -> cdk.RemovalPolicy:
    """Kept or destroyed, as the settings say.

    What a failed first deployment made is always destroyed: it holds nothing yet, and its name
    would block the next attempt.
    """
    if storage.retain:
        return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return cdk.RemovalPolicy.DESTROY
