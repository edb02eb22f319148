"""What became of a workload over its executions: rows, with the points where something changed.

rows.py     one execution as a row, from its result, its verdict and the posture's record; pure
telling.py  rows as JSON, CSV and a page
"""
