"""Names that both sides of a border use: who requests a job and the job itself, who writes a file
and who reads it. Each stands here once; nothing but the standard library is needed to read it.
"""

from __future__ import annotations

# What a job is told by environment variables. Hyperparameters are for what decides its result.
ARM_VARIABLE = "COMPILEGATE_ARM"
"""The arm that the job trains, for its evidence."""
IMAGE_VARIABLE = "COMPILEGATE_IMAGE"
"""The URI of the job's image: no container knows its own."""
INSTANCE_TYPE_VARIABLE = "COMPILEGATE_INSTANCE_TYPE"
"""The instance type in the request: it tells the step cache that timings elsewhere differ."""
CHECKPOINTS_VARIABLE = "COMPILEGATE_CHECKPOINTS"
"""The folder where checkpoints outlive the job's machine."""
CHECKPOINT_SECONDS_VARIABLE = "COMPILEGATE_CHECKPOINT_SECONDS"
"""Seconds between two checkpoints."""
COMPILE_CACHE_VARIABLE = "COMPILEGATE_COMPILE_CACHE"
"""The folder where archives of the compile cache outlive the job."""
SCRIPT_VARIABLE = "COMPILEGATE_SCRIPT"
"""The training script that the launcher starts."""
PROCESSES_VARIABLE = "COMPILEGATE_PROCESSES"
"""In how many processes on each machine the launcher starts it."""
PRINTED_VARIABLE = "COMPILEGATE_PRINTED_"
"""With a metric's name after it: the regular expression that the launcher catches it by."""
ON_FAILURE_VARIABLE = "COMPILEGATE_ON_FAILURE"
"""What the launcher does when the script fails: one of `ON_FAILURE`."""
JOB_STARTED_VARIABLE = "COMPILEGATE_JOB_STARTED"
"""When the job's first process started, on the system's monotonic clock."""
FAILURE_NOTE_VARIABLE = "COMPILEGATE_FAILURE_NOTE"
"""Where one of several processes notes why it failed."""

# What a job's surroundings are told by the names that others gave them.
PREPARED_VARIABLE = "SM_CHANNEL_PREPARED"
MODEL_VARIABLE = "SM_MODEL_DIR"
OUTPUT_DATA_VARIABLE = "SM_OUTPUT_DATA_DIR"
"""The folder whose content becomes `OUTPUT_ARCHIVE`."""
INDUCTOR_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
TRITON_CACHE_VARIABLE = "TRITON_CACHE_DIR"
COMPILE_THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"
NEURON_CACHE_VARIABLE = "NEURON_COMPILE_CACHE_URL"
XLA_DEVICE_VARIABLE = "PJRT_DEVICE"

# Hyperparameters that every training program is given, under the names that a workload declares.
SEED = "seed"
COMPILER = "compiler"
BATCH_SIZE = "batch_size"
LEARNING_RATE = "learning_rate"
PRECISION = "precision"

# Hyperparameters of AWS's images.
TRAINING_COMPILER_HYPERPARAMETER = "sagemaker_training_compiler_enabled"
TRAINING_COMPILER_DEBUG_HYPERPARAMETER = "sagemaker_training_compiler_debug_mode"

# Limits and defaults that a workload declares, and the built-in training program holds as well.
MOST_PROCESSES = 64
DEFAULT_PARITY_STEPS, MOST_PARITY_STEPS = 4, 1000
DEFAULT_COMPILE_CACHE_MEGABYTES, MOST_COMPILE_CACHE_MEGABYTES = 1024, 100_000
DEFAULT_CHECKPOINT_SECONDS = 300

ON_FAILURE = ("stop", "record")
"""What a job does when its arm cannot be trained: end, or write that down as evidence."""

SPEED_METRIC = "samples_per_second"
"""Under which name a job that only prints its metrics reports its speed."""

# Special names of arms.
NO_ARM = "none"
"""Stands where no arm is registered; never null, since conditions compare it with names."""
BASELINE_ARM = "baseline"
CHAMPION_ARM = "champion"
"""The model that was registered last."""
CHAMPION_SEED = 0
"""In its evidence: one fixed model, which belongs to no seed of an execution."""
CHALLENGER_ARM = "challenger"
"""The model that would take its place."""

# What a job leaves, by SageMaker's names and by ours.
MODEL_ARCHIVE = "model.tar.gz"
OUTPUT_ARCHIVE = "output.tar.gz"
EVIDENCE_FOLDER = "evidence"
EVIDENCE_FILE = "evidence.json"
STEPS_FILE = "steps.npz"
EXAMPLES_FILE = "examples.npz"
PARITY_FILE = "parity.npz"

# What the gate leaves.
VERDICT_FILE = "verdict.json"
REPORT_FILE = "report.html"
REPORT_MARKDOWN_FILE = "report.md"
NOTICE_FILE = "notice.json"
OBSERVATIONS_FILE = "observations.json"
