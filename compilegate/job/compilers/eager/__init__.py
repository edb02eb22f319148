"""Eager: no compiler. Its proof is that no graph was compiled in this process."""

from compilegate.job.compilers.declaration import Declaration

DECLARATION = Declaration(
    name="eager",
    image="training",
    proof=("torch", "dynamo_loaded", "graphs_compiled"),
    needs=("torch", "working device"),
    any_shape=True,
)
