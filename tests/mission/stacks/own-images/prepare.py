"""Makes the training data, once for all jobs."""
