"""Names that a definition and the function of its Lambda steps share."""

from __future__ import annotations

FUNCTION = "compilegate-posture"
"""The function that both Lambda steps call, on this machine."""

FUNCTION_KIND = "posture"
"""In an account it is called that, after its workload."""

ACT = "act"
"""What is asked of it: one of the two below."""
START = "start"
SETTLE = "settle"

ARMS = "arms"
"""Output of the start: `all`, `baseline`, or the candidate that trains alone."""
ALL = "all"
BASELINE = "baseline"
POSTURE = "posture"
WATCHED = "watched"
REASON = "reason"

ARM = "arm"
"""Output of the settling: the arm whose model is registered; with it, what is said of that arm."""
OF_ARM = ("model", "image", "compiler", "job", "words", "evidence")
"""Outputs of the settling, whose inputs are `NAME--ARM`."""

FOLDER_VARIABLE = "COMPILEGATE_POSTURE_FOLDER"
"""Where the records lie on this machine."""
DAY_VARIABLE = "COMPILEGATE_POSTURE_DAY"
"""An ISO 8601 date that takes the place of now: for rehearsals of a year."""

TABLE_VARIABLE = "COMPILEGATE_POSTURE_TABLE"
"""The DynamoDB table that holds the records in an account."""
WORKLOAD_VARIABLE = "WORKLOAD"
"""Whose executions the function of an account hears of."""
