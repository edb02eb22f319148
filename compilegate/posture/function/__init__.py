"""The function of a posture: what its Lambda steps call, and what happens around an execution."""
