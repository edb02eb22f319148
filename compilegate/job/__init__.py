"""What a training script imports: all public names, loaded only when used.

    from compilegate.job import Evidence, Examples, Steps, write_evidence

Nothing here imports the rest of this project. It is written in Python 3.8 with numpy; torch is
imported where it is used. So that a script only pays for what it uses, the imports below serve type
checkers and, at run time, are followed one name at a time.
"""

import importlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compilegate.job.cache import CacheKey as CacheKey
    from compilegate.job.cache import ColdFigures as ColdFigures
    from compilegate.job.cache import CompileCache as CompileCache
    from compilegate.job.cache.here import key_here as key_here
    from compilegate.job.compilers import Compiler as Compiler
    from compilegate.job.compilers import Option as Option
    from compilegate.job.compilers import compiler_options as compiler_options
    from compilegate.job.compilers import declarations as declarations
    from compilegate.job.compilers import load_compiler as load_compiler
    from compilegate.job.digests import file_digest as file_digest
    from compilegate.job.digests import settings_digest as settings_digest
    from compilegate.job.errors import ArmError as ArmError
    from compilegate.job.errors import CompilegateError as CompilegateError
    from compilegate.job.errors import CompilerError as CompilerError
    from compilegate.job.errors import InputError as InputError
    from compilegate.job.errors import NonFiniteLossError as NonFiniteLossError
    from compilegate.job.errors import first_line as first_line
    from compilegate.job.errors import one_sentence as one_sentence
    from compilegate.job.errors import report_failure as report_failure
    from compilegate.job.evidence import CheckpointRecord as CheckpointRecord
    from compilegate.job.evidence import CompileCacheRecord as CompileCacheRecord
    from compilegate.job.evidence import CompilerRecord as CompilerRecord
    from compilegate.job.evidence import Evidence as Evidence
    from compilegate.job.evidence import EvidenceError as EvidenceError
    from compilegate.job.evidence import Examples as Examples
    from compilegate.job.evidence import FloatArray as FloatArray
    from compilegate.job.evidence import IntArray as IntArray
    from compilegate.job.evidence import ParityErrors as ParityErrors
    from compilegate.job.evidence import ParityRecord as ParityRecord
    from compilegate.job.evidence import Resumption as Resumption
    from compilegate.job.evidence import Scalar as Scalar
    from compilegate.job.evidence import SpeedRecord as SpeedRecord
    from compilegate.job.evidence import Steps as Steps
    from compilegate.job.evidence import steady_steps as steady_steps
    from compilegate.job.evidence import write_evidence as write_evidence
    from compilegate.job.evidence import write_examples as write_examples
    from compilegate.job.files import whole_file as whole_file
    from compilegate.job.files import write_json as write_json
    from compilegate.job.files import write_text as write_text
    from compilegate.job.launch.failure import FailureNote as FailureNote
    from compilegate.job.launch.failure import leave_note as leave_note
    from compilegate.job.launch.failure import record_failure as record_failure
    from compilegate.job.launch.supervisor import REPORTED_FAILURE as REPORTED_FAILURE
    from compilegate.job.launch.supervisor import Launch as Launch
    from compilegate.job.launch.supervisor import seconds_since_start as seconds_since_start
    from compilegate.job.launch.supervisor import supervise as supervise
    from compilegate.job.machine.environment import describe_machine as describe_machine
    from compilegate.job.machine.memory import keep_freed_memory as keep_freed_memory
    from compilegate.job.machine.memory import peak_memory_bytes as peak_memory_bytes
    from compilegate.job.machine.world import ALONE as ALONE
    from compilegate.job.machine.world import SEED_LIMIT as SEED_LIMIT
    from compilegate.job.machine.world import World as World
    from compilegate.job.machine.world import world_of as world_of
    from compilegate.job.probes.parity import Weights as Weights
    from compilegate.job.probes.parity import keep_weights as keep_weights
    from compilegate.job.probes.parity import probe_parity as probe_parity
    from compilegate.job.steps.distribution import joined as joined
    from compilegate.job.steps.distribution import lost_peer as lost_peer
    from compilegate.job.steps.optimizer import adamw as adamw
    from compilegate.job.steps.optimizer import changing_number as changing_number
    from compilegate.job.steps.precision import check_precision as check_precision
    from compilegate.job.steps.precision import loss_scaler as loss_scaler
    from compilegate.job.steps.speed import compile_seconds as compile_seconds
    from compilegate.job.steps.speed import recompilations as recompilations
    from compilegate.job.steps.speed import samples_per_second as samples_per_second
    from compilegate.job.steps.speed import steady_starts as steady_starts
    from compilegate.job.steps.step import Batch as Batch
    from compilegate.job.steps.step import StepParts as StepParts
    from compilegate.job.steps.step import Update as Update
else:
    _IMPORT = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)
    _PLACES = {name: place for place, name in _IMPORT.findall(__loader__.get_source(__name__))}
    """The module of each public name, read from the imports above."""
    __all__ = list(_PLACES)

    def __getattr__(name):
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_PLACES[name]), name)
        globals()[name] = value
        return value

    def __dir__():
        return [*globals(), *__all__]
