"""What is kept of a posture: every decision, as text that is believed only where it replays."""
