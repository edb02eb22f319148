"""The control plane: from a declared workload to a verdict."""
