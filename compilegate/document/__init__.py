"""What a definition says, by the rules of SageMaker Pipelines, whoever executes it. Pure.

    model.py          a definition as types: steps, parameters, policies
    writing.py        those types to JSON
    reading.py        JSON to those types
    step_types.py     what each type of step takes, gives and is cached by
    parameters.py     the values of parameters in one execution
    expressions.py    variables and functions: Get, Std:Join, Std:JsonGet
    evaluation.py     what they come to in one execution
    paths.py          the paths in them
    conditions.py     which branch is taken
    graph.py          what waits for what, and what can run at once
    durations.py      how long a cached result may stand in

`compilegate.pipelines` writes definitions; the local runner and a plan of an execution on
SageMaker read them.
"""
