"""The quality gate: evidence in, verdict out. Pure, but for reading `gate.json` and evidence.

The path of a verdict::

    settings               the `[gate]` table of a workload, and `gate.json`
    evidence               the files of each job, read and typed
    record, records        is each record whole and plausible; can they be compared?
    confounds              what differs between two arms besides the compiler?
    metrics, scores        metrics of examples, and what they show by themselves
    quality, statistics    is the model as good?
    parity                 is the compiled arithmetic eager's?
    speed                  is it faster by enough, and is compiling repaid?
    cost, forecast         what it took, what would decide
    decision               which arm's model is registered
    judge                  composes them into a Verdict
    findings, verdict      codes and sentences; what the verdict holds
    observations           what the report draws beside the verdict
"""
