"""How a project begins: the files that a folder needs before `compilegate run` works there.

`table` reads a table and `script` a training script; `project` writes what is made of them.
"""

from compilegate.init.project import (
    Started,
    from_script,
    from_table,
    with_built_in_data,
    write_files,
)
from compilegate.init.table import TABLES, InitError, UnclearLabelError

__all__ = [
    "TABLES",
    "InitError",
    "Started",
    "UnclearLabelError",
    "from_script",
    "from_table",
    "with_built_in_data",
    "write_files",
]
