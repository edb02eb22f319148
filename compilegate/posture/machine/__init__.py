"""What a posture is, what can happen to it, and what comes of it. Pure."""
