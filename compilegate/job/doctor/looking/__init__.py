"""Where each part of the facts comes from.

What may crash or hang is a program of its own (`torch_here`, `xla_here`, `trial_here`), asked by
`processes` with a time limit.
"""
