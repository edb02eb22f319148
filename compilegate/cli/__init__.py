"""The `compilegate` command. Each sub-command is one file, imported only when it is called."""

from compilegate.cli.main import main

__all__ = ["main"]
