"""The quality gate: evidence in, verdict out. Pure, but for reading `gate.json`.

The path of a verdict::

    settings, experiment   what is asked: `[gate]` of a workload, and `gate.json`
    integrity/             is the evidence whole, its own, and comparable; what else differs?
    quality/               metrics of examples -> comparisons -> is the model as good?
    speed/                 step times -> is it faster by enough, and is compiling repaid?
    parity                 is the compiled arithmetic eager's?
    statistics/            the interval of a mean difference; sample sizes; several candidates
    cost                   what it took, and when that is repaid
    decision               which arm's model is released
    judge                  composes them into a Verdict
    verdict, judgements    what the verdict holds; reasons: its codes and sentences
    observations           what the report draws beside the verdict
"""
