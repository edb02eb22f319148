"""Who may do what: statements written by hand, and the roles that hold them."""

from infra.access.arns import Arns
from infra.access.role import service_principal, scoped_role
from infra.access.statement import Statement

__all__ = ["Arns", "Statement", "service_principal", "scoped_role"]
