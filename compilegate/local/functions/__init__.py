"""Lambda steps: a handler in a process of its own."""
