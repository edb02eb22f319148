"""The tests, and the stand-ins that they share."""
