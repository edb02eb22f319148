"""The random generators of a process: what they are, and made so again.

A job looks at a training and must not change it. Whatever of it may draw random numbers, as a model
that is called once more does, is done within `preserved_generators`.
"""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Callable, Iterator, List, Optional

_Restore = Callable[[], None]


class Generators:
    """The states of the generators of Python, NumPy and torch, of its CPU and of every GPU. Those
    of a library that is not imported by then are left out; so are GPUs that nothing was done on."""

    def __init__(self) -> None:
        python = random.getstate()
        self._restores: List[_Restore] = [lambda: random.setstate(python)]
        numpy: Any = sys.modules.get("numpy.random")
        if numpy is not None:
            of_numpy = numpy.get_state()
            self._restores.append(lambda: numpy.set_state(of_numpy))
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            host = torch.get_rng_state()
            self._restores.append(lambda: torch.set_rng_state(host))
            if torch.cuda.is_initialized():
                gpus = torch.cuda.get_rng_state_all()
                self._restores.append(lambda: torch.cuda.set_rng_state_all(gpus))

    def restore(self) -> None:
        """Make them so again."""
        for restore in self._restores:
            restore()


def restoring(generator: Any) -> Optional[_Restore]:
    """What makes a generator of a script's own what it is now; None for what is none."""
    if isinstance(generator, random.Random):
        state: Any = generator.getstate()
        return lambda: generator.setstate(state)
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        state = generator.get_state()
        return lambda: generator.set_state(state)
    if numpy is not None and isinstance(generator, numpy.RandomState):
        state = generator.get_state()
        return lambda: generator.set_state(state)
    if numpy is not None and isinstance(generator, numpy.Generator):
        source = generator.bit_generator
        state = source.state
        return lambda: setattr(source, "state", state)
    return None


@contextlib.contextmanager
def preserved_generators() -> Iterator[None]:
    """Within, random numbers may be drawn and generators seeded; afterwards, also after an
    exception, the generators are as they were."""
    before = Generators()
    try:
        yield
    finally:
        before.restore()
