"""The quality gate: evidence in, verdict out.

Pure but for `evidence_folders`, the one module that reads files. The path of a verdict::

    evidence_folders    folders and archives  -> evidence records            (files)
    integrity           one record            -> what makes it unusable
    agreement           records together      -> what makes them incomparable
    confounds           candidate, baseline   -> what differs beside the compiler
    noninferiority      per-example columns   -> is the model as good?       (metrics, crossed)
    speed               step times            -> does it train faster?
    decision            all of these          -> which arm's model is released
    judge               composes them into a Verdict (verdict, reasons)
    observations        records               -> what the report page draws
"""
