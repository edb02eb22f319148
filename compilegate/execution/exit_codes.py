"""What the command's exit status means. Scripts and CI may rely on these."""

DECIDED = 0
"""Done. For an execution: a model was decided on and registered, compiled or baseline; or the one
that was registered before stands, where a workload has a champion."""

INTERNAL = 1
"""A defect in this program: the message is a traceback, and we want to hear of it."""

REFUSED = 2
"""The input was refused before anything started; the message says what to change."""

STEP_FAILED = 3
"""A step of the execution failed; the message has its last log lines. It can be resumed."""

GATE_FAILED = 4
"""The execution reached a Fail step: neither a candidate nor the baseline is sound."""

LOST = 5
"""An execution on SageMaker cannot be followed to its end; it goes on, and can be watched again."""

INTERRUPTED = 130
"""Stopped by Ctrl-C or a termination signal. An execution here can be resumed; one on SageMaker
goes on, unless it was stopped itself."""

TABLE = (
    (DECIDED, "done; an execution ended with a registered model, new or standing"),
    (INTERNAL, "a defect in this program"),
    (REFUSED, "the input was refused before anything started"),
    (STEP_FAILED, "a step of the execution, or the build of an image, failed"),
    (GATE_FAILED, "the gate failed the execution: no arm is sound, no model was registered"),
    (LOST, "an execution on SageMaker cannot be followed; `compilegate watch` re-attaches"),
    (INTERRUPTED, "interrupted; `compilegate run --resume` or `compilegate watch` goes on"),
)
"""For `--help` and the README."""
