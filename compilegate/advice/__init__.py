"""Advice: is it worth compiling, before the first GPU hour. Pure.

    from compilegate.advice import advise, facts_of

    advice = advise(facts_of(workload), experiences)

`rules.toml` is the one table of what is considered, what each option attacks and gains, and where
the numbers come from. `known/` gathers what is known of a workload and what finished executions
measured; `judging` weighs it; `told/` writes it down.
"""

from compilegate.advice.judging import Advice, OptionAdvice, Stance, Verdict, advise
from compilegate.advice.known.experience import Experience, experiences_of
from compilegate.advice.known.facts import Fact, Facts, Obstacle, Profiled, Standing
from compilegate.advice.known.gathering import facts_of
from compilegate.advice.portfolio import Portfolio, portfolio_of
from compilegate.advice.ranges import Range

__all__ = [
    "Advice",
    "Experience",
    "Fact",
    "Facts",
    "Obstacle",
    "OptionAdvice",
    "Portfolio",
    "Profiled",
    "Range",
    "Stance",
    "Standing",
    "Verdict",
    "advise",
    "experiences_of",
    "facts_of",
    "portfolio_of",
]
