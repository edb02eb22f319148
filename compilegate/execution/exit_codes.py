"""What the command's exit status means. Scripts and CI may rely on these."""

DECIDED = 0
"""Success. After an execution: a model was registered, a candidate's or the baseline's; or none,
since it is the registered one."""

INTERNAL = 1
"""A bug in this program: the message is a traceback. Please report it."""

REFUSED = 2
"""The input was refused before anything started; the message says what to change."""

STEP_FAILED = 3
"""A step of the execution failed; the message has its last log lines. It can be resumed."""

GATE_FAILED = 4
"""The gate had the execution fail: no arm may be registered."""

LOST = 5
"""Lost contact with an execution on SageMaker; it continues, and can be watched again."""

CHECK_ERRORS = 6
"""`check` found what is wrong in a script."""

CHECK_WARNINGS = 7
"""`check --fail-on warning` found warnings, and no error."""

CHECK_NOTES = 8
"""`check --fail-on note` found notes alone."""

FAIL_STEP = 9
"""The execution reached a Fail step of its own definition, and no gate has judged it."""

INTERRUPTED = 130
"""Stopped by Ctrl-C or a termination signal. An execution here can be resumed; one on SageMaker
continues, unless it was itself stopped."""

TABLE = (
    (DECIDED, "success; after an execution a model is registered, unless nothing is new"),
    (INTERNAL, "a bug in Compilegate"),
    (REFUSED, "the input was refused before anything started"),
    (STEP_FAILED, "a step of the execution, or an image build, failed"),
    (
        GATE_FAILED,
        "the gate failed the execution: no model may be registered",
    ),
    (LOST, "lost contact with an execution on SageMaker; `compilegate aws watch` reconnects"),
    (CHECK_ERRORS, "`compilegate check` found an error in a script"),
    (CHECK_WARNINGS, "`compilegate check --fail-on warning` found warnings, and no error"),
    (CHECK_NOTES, "`compilegate check --fail-on note` found notes alone"),
    (FAIL_STEP, "the execution reached a Fail step, and its definition has no gate"),
    (INTERRUPTED, "interrupted; `compilegate run --resume` or `compilegate aws watch` continues"),
)
"""The table in `--help` and docs/commands.md."""
