"""What jobs do not share while they run: their cores, and their GPUs."""
