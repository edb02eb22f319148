"""What makes a job's process see a container: a root of its own, a layer over its environment."""
