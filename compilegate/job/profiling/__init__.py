"""Where the time of a training step goes, measured inside the training process.

A profiled process takes a few dozen steps and ends: first steps that warm up, then plain ones that
a stopwatch divides into phases, then some under torch.profiler, then some that torch captures
without compiling them, for graph breaks. `compilegate.profile` reads what is written here.

`session` leads through it, `script` starts a script that does not import `compilegate.job`.
"""
