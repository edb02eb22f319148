"""What a machine has and lacks for each compiler: `compilegate doctor`, here or as a job.

* `facts`: what is known of a machine, as types.
* `host`, `gpus`, `toolchain`, `frameworks`, `timing`: where each part of it comes from.
* `judging`: facts to findings: for each compiler what it lacks, and what to do about it. Pure.
* `words`: both as text.
* `program`: the job, which SageMaker's toolkit or the local runner starts.
* `checkup`: the short form in the evidence of every job.

Whatever may crash or hang (torch's import, CUDA's start, a C++ compiler) runs in a process of its
own with a time limit: a doctor must survive the illness.
"""
