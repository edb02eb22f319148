"""What PyTorch/XLA needs in a script, and what breaks it."""
