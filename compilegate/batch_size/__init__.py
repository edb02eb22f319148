"""The largest batch that fits: a bisection over training steps in fresh processes."""
