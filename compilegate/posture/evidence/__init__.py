"""What the executions of a candidate add up to."""
