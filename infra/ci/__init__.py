"""What CI may do in the account, without long-lived keys."""

from compilegate.infra.ci.stack import CiStack

__all__ = ["CiStack"]
