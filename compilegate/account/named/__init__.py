"""A project's names without asking an account: for those who deploy with other tools."""

from compilegate.account.named.place import NamedPlace

__all__ = ["NamedPlace"]
