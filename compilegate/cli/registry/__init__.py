"""Commands for registered models."""
