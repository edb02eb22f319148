"""Who may do what: statements written by hand, and the roles that hold them."""

from compilegate.infra.access.arns import Arns
from compilegate.infra.access.role import PolicySizeError, scoped_role, service_principal
from compilegate.infra.access.statement import Statement

__all__ = ["Arns", "PolicySizeError", "Statement", "scoped_role", "service_principal"]
