"""The command's exit status. Scripts and CI may rely on these numbers."""

DECIDED = 0
"""A model was registered, a candidate's or the baseline's; or none, since it is the registered
one."""
INTERNAL = 1
"""The message is a traceback. Please report it."""
REFUSED = 2
STEP_FAILED = 3
"""The message has the step's last log lines. The execution can be resumed."""
GATE_FAILED = 4
LOST = 5
"""The execution continues, and can be watched again."""
CHECK_ERRORS = 6
CHECK_WARNINGS = 7
CHECK_NOTES = 8
FAIL_STEP = 9
INTERRUPTED = 130
"""By Ctrl-C or a termination signal. An execution here can be resumed; one on SageMaker continues,
unless it was itself stopped."""

TABLE = (
    (DECIDED, "success; after an execution a model is registered, unless nothing is new"),
    (INTERNAL, "a bug in Compilegate"),
    (REFUSED, "the input was refused before anything started"),
    (STEP_FAILED, "a step of the execution, or an image build, failed"),
    (GATE_FAILED, "the gate failed the execution: no model may be registered"),
    (LOST, "lost contact with an execution on SageMaker; `compilegate aws watch` reconnects"),
    (CHECK_ERRORS, "`compilegate check` found an error in a script"),
    (CHECK_WARNINGS, "`compilegate check --fail-on warning` found warnings, and no error"),
    (CHECK_NOTES, "`compilegate check --fail-on note` found notes alone"),
    (FAIL_STEP, "the execution reached a Fail step, and its definition has no gate"),
    (INTERRUPTED, "interrupted; `compilegate run --resume` or `compilegate aws watch` continues"),
)
"""What each means, as in `--help` and docs/commands.md."""
