"""The tables of a workload file as people write them. What is left out is None, or has its default.

Nothing here looks at two tables at once: `compilegate.workload.settling` does.
"""
