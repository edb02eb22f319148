"""Posture: how far a workload has come with its compiler, and what happens next.

    off         the baseline trains alone
    benchmark   all arms train; the baseline is registered
    shadow      all arms train; the gate decides what is registered
    on          the winning candidate trains alone, but for audits of all arms
    reverted    the baseline trains alone, for a reason that is kept

Pure but for `home`: `transitions` says what an event does to a state, `planning` which arms an
execution trains, `record` keeps every decision and replays them. The standard library alone, so
that a Lambda function can carry it.
"""
