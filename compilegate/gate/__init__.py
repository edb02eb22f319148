"""The quality gate: evidence in, verdict out.

Pure but for `evidence_folders` and `experiment_file`, which read files. The path of a verdict::

    experiment_file     gate.json             -> what is asked               (config; files)
    evidence_folders    folders and archives  -> evidence records            (files)
    integrity           one record            -> what makes it unusable      (examples_integrity)
    agreement           records together      -> what makes them incomparable
    examination         both, of all records  -> the records that can be judged
    confounds           candidate, baseline   -> what differs beside the compiler
    quality             columns of examples   -> comparisons        (metrics, slices)
    comparison          two arms, one metric  -> the mean difference (crossed, tails)
    noninferiority      a comparison          -> is the model as good?
    settling            an undecided one      -> how many seeds or examples would decide it
    resolution          a comparison, or plan -> could the margin be shown at all?
    effects             candidate, control    -> the compiler's share, and the rest's
    arm_speed           step times            -> how fast one arm trained         (compile_time)
    speed               two of them           -> is it faster by enough?  (speedup, repayment)
    multiplicity        several candidates    -> the confidence that each one needs
    cost                seconds, prices       -> what it took, when that is repaid (cost_figures)
    decision            all of these          -> which arm's model is released
    judge               composes them into a Verdict (verdict, reasons)
    observations        records               -> what the report page draws
"""
