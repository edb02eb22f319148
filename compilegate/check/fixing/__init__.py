"""Mechanical fixes: which findings have one, and how it is written into a script."""
