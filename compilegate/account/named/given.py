"""What people name an account by, checked before anything is made of it."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from compilegate.account.named.place import NamedPlace
from compilegate.account.settings import Names, SettingsError, read_settings
from compilegate.account.settings.declaration import Account, KeyArn, Region

_ALLOWED: dict[str, tuple[TypeAdapter[str], str, str]] = {
    "account": (TypeAdapter(Account), "twelve digits", "account"),
    "region": (TypeAdapter(Region), "a region, as in us-east-1", "region"),
    "key": (TypeAdapter(KeyArn), "arn:aws:kms:REGION:ACCOUNT:key/ID", "storage.key_arn"),
}


def given_place(
    settings: Path, *, account: str | None, region: str | None, key: str | None
) -> NamedPlace:
    """The place that options and settings name together, where an option comes first.

    Raises SettingsError, with one sentence for each that neither names or that cannot be one.
    """
    declared = read_settings(settings)
    given = {
        "account": account or declared.account,
        "region": region or declared.region,
        "key": key or declared.storage.key_arn,
    }
    faults = []
    for option, value in given.items():
        adapter, allowed, name = _ALLOWED[option]
        if value is None:
            faults.append(f"--{option}: found none, allowed: {allowed}, or {name} in {settings}")
            continue
        try:
            adapter.validate_python(value)
        except ValidationError:
            faults.append(f"--{option}: found {value!r}, allowed: {allowed}")
    if faults:
        raise SettingsError(*faults)
    return NamedPlace(
        names=Names(declared),
        account=str(given["account"]),
        region=str(given["region"]),
        key_arn=str(given["key"]),
    )
