"""Content that a definition names and that has to lie in the object store before it runs."""
