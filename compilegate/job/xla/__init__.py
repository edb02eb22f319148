"""PyTorch/XLA: a training step is traced, compiled whole and executed at once.

The same code runs on torch_xla 1.13, which AWS built SageMaker Training Compiler into, and on 2.9.

* `runtime`: torch_xla's two sets of names under one, and what it is told before its import.
* `processes`: which processes train together, and where their gradients meet.
* `step`: a training step in the order that a traced device asks for.
* `forward`: the forward pass, on the device or, for the parity probe, of a model on the host.
* `compilations`: what was compiled, how long it took, and why.

Nothing but `compilegate.job.compilers.xla` imports this package: torch_xla is in few environments.
"""
