"""Which code runs in each step, which is compiled, and which is neither."""
