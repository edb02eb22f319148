"""Posture: how far a workload has come with its compiler, and what happens next.

    off         the baseline trains alone
    benchmark   all arms train; the baseline is registered
    shadow      all arms train; the gate decides what is registered
    on          the winning candidate trains alone, but for audits of all arms
    reverted    the baseline trains alone, for a reason that is kept

    policy.py       the rules that a workload declares
    state.py        where a workload stands; pure, as the next three
    events.py       what can happen to that
    transitions.py  what comes of it, and which arms train
    sequential.py   what executions add up to
    records.py      every decision, kept and replayed; in a folder here
    dynamodb.py     the same in an account
    function.py     the Lambda function, which also runs on this machine

The standard library alone, but for boto3 in an account, which Lambda has.
"""
