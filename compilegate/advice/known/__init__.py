"""What is known of a workload, and what finished executions measured."""
