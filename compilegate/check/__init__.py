"""Read training scripts and say what in them breaks a compiler or slows it down."""
