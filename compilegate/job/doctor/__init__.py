"""What a machine has and lacks for each compiler: `compilegate doctor`, here or as a job.

* `facts`: what is seen of a machine; `apart`: the same of what may crash or hang (the import of
  torch, the start of CUDA, a compiler), in a process of its own with a time limit.
* `needs`: the table by which facts are judged: what each compiler lacks, and what to do about it.
* `words`: both as text.
* `program`: the examination, and the job that SageMaker's toolkit or the local runner starts.
* `checkup`: the short form in the evidence of every job.
"""
