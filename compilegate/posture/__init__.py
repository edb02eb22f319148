"""Posture: how far a workload has come with its compiler, and what happens next.

    off         the baseline trains alone
    benchmark   all arms train; the baseline is registered
    shadow      all arms train; the gate decides what is registered
    on          the winning candidate trains alone, but for audits of all arms
    reverted    the baseline trains alone, for a reason that is kept

    policy.py   the rules that a workload declares
    state.py    where a workload stands
    machine/    what can happen to that, what comes of it, and which arms train: pure
    evidence/   what executions add up to: pure
    records/    every decision, kept and replayed; in a folder here, in DynamoDB in an account
    function/   the Lambda function, which also runs on this machine

The standard library alone, but for boto3 in an account, which Lambda has.
"""
