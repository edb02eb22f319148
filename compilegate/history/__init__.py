"""What became of a workload over its executions: rows, with the points where something changed."""
