"""Who may do what: statements written by hand, and the roles that hold them."""

from infra.access.arns import Arns
from infra.access.role import PolicySizeError, scoped_role, service_principal
from infra.access.statement import Statement

__all__ = ["Arns", "PolicySizeError", "Statement", "scoped_role", "service_principal"]
