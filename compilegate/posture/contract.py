"""Names shared by a workload's file, its definition and the function of its Lambda steps."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.errors import CompilegateError
from compilegate.job.contract import BASELINE_ARM, NO_ARM

FUNCTION = "compilegate-posture"
"""The function that both Lambda steps call on this machine."""
FUNCTION_KIND = "keeper"
"""The same in an account, after the workload's name."""

ACT = "act"
"""Input of the function: `start`, `settle` or `registered`."""
START = "start"
SETTLE = "settle"
REGISTERED = "registered"

ARMS = "arms"
"""Output of `start`: `all`, `baseline`, the candidate that trains alone, or `none`."""
ALL = "all"
BASELINE = BASELINE_ARM
NOTHING = NO_ARM
"""No arm trains: the execution would register the registered model again."""
REGISTERS = "registers"
"""Output of `start`: whose choice is registered, `gate` or `baseline`."""
INPUTS = "inputs"
"""Input of `start` and `registered`: all that an execution's trainings and verdict depend on."""
CACHE_SECONDS = "cache_seconds"
"""Input of `start`: for how long a training is taken from the cache."""
POSTURE = "posture"
WATCHED = "watched"
REASON = "reason"

ARM = "arm"
"""Output of `settle`: the arm whose model is registered, beside its values of `OF_ARM`."""
OF_ARM = ("model", "image", "compiler", "job", "words", "evidence")
"""Outputs of `settle`, whose inputs are `NAME--ARM`."""

FOLDER_VARIABLE = "COMPILEGATE_POSTURE_FOLDER"
"""The folder of the records on this machine."""
FRESH_VARIABLE = "COMPILEGATE_POSTURE_FRESH"
"""Given where nothing comes from the cache on this machine, so that every execution trains."""
DAY_VARIABLE = "COMPILEGATE_POSTURE_DAY"
"""An ISO 8601 date that replaces the current time, to rehearse a year."""
TABLE_VARIABLE = "COMPILEGATE_POSTURE_TABLE"
"""The DynamoDB table of the records in an account."""


class PostureError(CompilegateError):
    """A request about a posture that cannot be granted. The message says what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """When a candidate is promoted, audited and given up: the table `[posture]`, which takes its
    defaults from here."""

    passes: int = 4
    """Passes of the gate in a row that promote a candidate, the benchmark's included."""
    shadow_days: float = 7.0
    """Days in shadow before a promotion: in the first week both versions run."""
    watch_days: float = 30.0
    """Days after a promotion in which models are tagged as watched."""
    audit_every: int = 8
    """In `on`, one execution in this many trains all arms."""
    patience: int = 24
    """Executions without a promotion until trying ends: the sequential test's looks. A failed
    execution, which is repeated, restarts the count."""
    reference_days: float = 90.0
    """Age at which reference metrics expire; an audit renews them."""
