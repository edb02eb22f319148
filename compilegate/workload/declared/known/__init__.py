"""What only people know of a workload."""
