"""Limits and defaults of what a workload declares, which jobs hold as well."""

from __future__ import annotations

MOST_PROCESSES = 64
DEFAULT_PARITY_STEPS, MOST_PARITY_STEPS = 4, 1000
MOST_SPEED_PROBE_SECONDS = 3600
DEFAULT_COMPILE_CACHE_MEGABYTES, MOST_COMPILE_CACHE_MEGABYTES = 1024, 100_000
DEFAULT_CHECKPOINT_SECONDS = 300
MOST_BUCKETS = 4  # lengths of buckets: each is a graph to compile
