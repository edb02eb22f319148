"""What moto lacks of serving: endpoints that change, and updates that leave metadata alone."""

from tests.aws_server.serving.endpoints import Endpoints
from tests.aws_server.serving.registry import Packages, repair_registry, repair_transforms

__all__ = ["Endpoints", "Packages", "repair_registry", "repair_transforms"]
