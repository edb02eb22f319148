"""Transform steps: a model's inference code over files, record by record.

request.py    a CreateTransformJob request, and the model that it names
job.py        its sandbox, its results
serving.py    what runs in the image's environment: loads the model, calls its functions
built_in.py   what answers with the model of a built-in algorithm
records.py    splitting, filtering, joining, for serving.py: standard library only
"""
