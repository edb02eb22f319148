"""What a training script imports: the public names, each loaded when it is first used.

    from compilegate import job

    model = job.compile(model)
    for batch in job.steps(loader):
        ...

Type checkers read the imports below; at run time they are followed one name at a time. Nothing here
imports the rest of this project.
"""

import importlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compilegate.job.callbacks.keras import KerasCallback as KerasCallback
    from compilegate.job.callbacks.lightning import LightningCallback as LightningCallback
    from compilegate.job.callbacks.trainer import TrainerCallback as TrainerCallback
    from compilegate.job.errors import ArmError as ArmError
    from compilegate.job.errors import CompilegateError as CompilegateError
    from compilegate.job.errors import CompilerError as CompilerError
    from compilegate.job.errors import InputError as InputError
    from compilegate.job.errors import NonFiniteLossError as NonFiniteLossError
    from compilegate.job.evidence import CompilerRecord as CompilerRecord
    from compilegate.job.evidence import Evidence as Evidence
    from compilegate.job.evidence import EvidenceError as EvidenceError
    from compilegate.job.evidence import Examples as Examples
    from compilegate.job.evidence import FloatArray as FloatArray
    from compilegate.job.evidence import IntArray as IntArray
    from compilegate.job.evidence import PaddedPositions as PaddedPositions
    from compilegate.job.evidence import PaddingRecord as PaddingRecord
    from compilegate.job.evidence import Scalar as Scalar
    from compilegate.job.evidence import SpeedRecord as SpeedRecord
    from compilegate.job.evidence import Steps as Steps
    from compilegate.job.evidence import record_failure as record_failure
    from compilegate.job.evidence import write_evidence as write_evidence
    from compilegate.job.files import file_digest as file_digest
    from compilegate.job.files import settings_digest as settings_digest
    from compilegate.job.machine.accelerators import this_machine as this_machine
    from compilegate.job.machine.memory import keep_freed_memory as keep_freed_memory
    from compilegate.job.machine.numerics import check_precision as check_precision
    from compilegate.job.machine.world import SEED_LIMIT as SEED_LIMIT
    from compilegate.job.machine.world import World as World
    from compilegate.job.machine.world import joined as joined
    from compilegate.job.machine.world import world_of as world_of
    from compilegate.job.optimizers import adamw as adamw
    from compilegate.job.optimizers import changing_number as changing_number
    from compilegate.job.optimizers import loss_scaler as loss_scaler
    from compilegate.job.script import Baseline as Baseline
    from compilegate.job.script import Job as Job
    from compilegate.job.script import JobConfig as JobConfig
    from compilegate.job.script import begin_step as begin_step
    from compilegate.job.script import checkpoint as checkpoint
    from compilegate.job.script import compile as compile
    from compilegate.job.script import current as current
    from compilegate.job.script import distributed as distributed
    from compilegate.job.script import end_step as end_step
    from compilegate.job.script import examples as examples
    from compilegate.job.script import finish as finish
    from compilegate.job.script import loss as loss
    from compilegate.job.script import metrics as metrics
    from compilegate.job.script import note as note
    from compilegate.job.script import positions as positions
    from compilegate.job.script import resume as resume
    from compilegate.job.script import save as save
    from compilegate.job.script import settings as settings
    from compilegate.job.script import start as start
    from compilegate.job.script import step as step
    from compilegate.job.script import steps as steps
    from compilegate.job.script import trained_on as trained_on
    from compilegate.job.script.example_rows import examples_of as examples_of
else:
    _IMPORT = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)
    _PLACES = {name: place for place, name in _IMPORT.findall(__loader__.get_source(__name__))}
    __all__ = list(_PLACES)

    def __getattr__(name):
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_PLACES[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        return [*globals(), *__all__]
