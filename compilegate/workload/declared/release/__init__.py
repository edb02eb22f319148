"""What becomes of a model once it is trained."""
