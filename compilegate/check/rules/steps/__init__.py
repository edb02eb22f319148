"""What stalls or slows each step, whatever compiles it."""
