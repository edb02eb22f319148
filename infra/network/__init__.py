"""A VPC for the jobs of a project, without a way to the internet."""

from compilegate.infra.network.stack import NetworkStack

__all__ = ["NetworkStack"]
