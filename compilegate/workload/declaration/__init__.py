"""The file `workloads/NAME.toml`, a class for each table. What is not here is not accepted there.

What stands below a field is its description in the schema and in docs/workload-reference.md.
"""
