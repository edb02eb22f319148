"""The history of a workload: one row for each execution, with its changes."""
