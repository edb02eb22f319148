"""How a project begins: the files that a folder needs before `compilegate run` works there.

`columns` reads what a table holds, `splitting` makes its two files, `script` reads a training
script; `workloads` writes what is declared of them, and `project` what lies around it.
"""

from compilegate.init.errors import InitError
from compilegate.init.project import NewFile, Started, write_files
from compilegate.init.workloads import from_hub, from_script, from_table, with_built_in_data

__all__ = [
    "InitError",
    "NewFile",
    "Started",
    "from_hub",
    "from_script",
    "from_table",
    "with_built_in_data",
    "write_files",
]
