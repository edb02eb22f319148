"""What a CI may do in the account, without a key of its own."""

from infra.ci.stack import CiStack

__all__ = ["CiStack"]
