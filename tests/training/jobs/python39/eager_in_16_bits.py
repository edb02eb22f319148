"""Prints what the parity probe compares a compiled step with, in each 16-bit precision."""

import torch

from compilegate.job.compilers import load_compiler
from compilegate.job.machine.numerics import Generators
from compilegate.job.probes.capture import Autocast, Call, Compiled, ObstacleError
from compilegate.job.probes.replay import Replay

model = torch.nn.Linear(4, 2)
part = Compiled("Linear", model, model.forward, model.forward)
for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
    call = Call(
        step=0,
        arguments=(torch.ones(3, 4),),
        named={},
        random=Generators(),
        autocast=Autocast("cpu", True, dtype),
        cotangents={"": torch.ones(3, 2)},
    )
    try:
        with Replay(part, load_compiler("eager")) as replay:
            print(f"{name}: {replay.eager(call).tensors['output'].dtype}")
    except ObstacleError as error:
        print(f"{name}: {error}")
