"""What a definition says, by the rules of SageMaker Pipelines, whoever executes it. Pure.

    definition.py     the JSON as types: steps, parameters, policies
    parameters.py     their values in one execution
    expressions.py    what variables stand for, with the paths of property_path.py
    conditions.py     which branch is taken
    graph.py          what waits for what, and what can run at once
    cache_key.py      which arguments tell one run of a step from another

The local runner goes by these rules, and a plan of an execution on SageMaker too.
"""
