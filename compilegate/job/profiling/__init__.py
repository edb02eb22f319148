"""Where the time of a training step goes, measured inside the training process.

A profiled process takes a few dozen steps and ends: some warm up, most are timed by the job's clock
alone, and some go under torch.profiler. `compilegate.profile` reads what is written here.

`session` leads through it, `script` starts a script that does not import `compilegate.job`.
"""
