"""Who may do what: statements written by hand, and the roles that hold them."""

from infra.access.arns import Arns
from infra.access.role import scoped_role, service_principal
from infra.access.statement import Statement

__all__ = ["Arns", "Statement", "scoped_role", "service_principal"]
