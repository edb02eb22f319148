"""Posture: how far a workload has come with its compiler, and what happens next.

    off         the baseline trains alone
    benchmark   all arms train; the baseline is registered
    shadow      all arms train; the gate decides what is registered
    on          the winning candidate trains alone, except in audits of all arms
    reverted    the baseline trains alone, for a reason that is kept

The function runs in Lambda too, so all of it needs the standard library alone, and boto3 there.
"""
