"""Advice: is it worth compiling, before the first GPU hour. Pure.

`rules.toml` is the one table of what is considered, what each option attacks and gains, and where
the numbers come from. `facts` has what is known of a workload and what executions measured;
`effects` what an option would do; `judge` weighs it; `render` writes it down.
"""
