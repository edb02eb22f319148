"""Inputs and code whose shapes vary, each of which a compiler compiles anew."""
