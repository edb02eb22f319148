"""The definition of a SageMaker pipeline: its types, its JSON, and the service's rules. Pure.

    model.py          a definition as types: steps, parameters and their values, policies, durations
    writing.py        those types to JSON
    reading.py        JSON to those types
    step_types.py     what each type of step takes, gives and is cached by
    requests.py       what the service takes in a step's request
    expressions.py    variables, functions and paths, and what they come to in one execution
    conditions.py     which branch is taken
    graph.py          what waits for what, and what can run at once

`compilegate.pipelines` writes definitions; the local runner and a plan of an execution on
SageMaker read them.
"""
