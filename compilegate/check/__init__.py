"""What in a training script breaks a compiler or slows it down. Scripts are read and never run."""
