"""The `compilegate` command. Each sub-command is one file, imported only when it is called."""

from pipelines.cli.main import main

__all__ = ["main"]
