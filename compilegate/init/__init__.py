"""How a project begins: the files that a folder needs before `compilegate run` works there.

`table` reads a table and `script` a training script; `project` writes what is made of them.
"""
