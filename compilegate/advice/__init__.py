"""Advice: is it worth compiling, before the first GPU hour. Pure.

    from compilegate.advice import advise, facts_of

    advice = advise(facts_of(workload), experiences)

`rules.toml` is the one table of what is considered, what each option attacks and gains, and where
the numbers come from. `facts` has what is known of a workload and what executions measured;
`effects` what an option would do; `judge` weighs it; `render` writes it down.
"""

from compilegate.advice.facts import (
    BESIDE_OTHERS,
    Experience,
    Facts,
    Obstacle,
    Profiled,
    Timing,
    experiences_of,
    facts_of,
    timing_of,
)
from compilegate.advice.judge import Advice, Stance, Verdict, advise
from compilegate.advice.rules import Range

__all__ = [
    "BESIDE_OTHERS",
    "Advice",
    "Experience",
    "Facts",
    "Obstacle",
    "Profiled",
    "Range",
    "Stance",
    "Timing",
    "Verdict",
    "advise",
    "experiences_of",
    "facts_of",
    "timing_of",
]
