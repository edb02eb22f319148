"""Names that both sides of a border use: requests and jobs, writers and readers of files."""

from __future__ import annotations

# Environment variables of a job. Hyperparameters are for what decides its result.
ARM_VARIABLE = "COMPILEGATE_ARM"
IMAGE_VARIABLE = "COMPILEGATE_IMAGE"  # the URI of the job's image: no container knows its own
INSTANCE_TYPE_VARIABLE = "COMPILEGATE_INSTANCE_TYPE"  # for the step cache: timings elsewhere differ
MACHINE_VARIABLE = "COMPILEGATE_MACHINE"  # another one, as JSON (`machine.accelerators`)
CHECKPOINTS_VARIABLE = "COMPILEGATE_CHECKPOINTS"  # the folder that outlives the machine
CHECKPOINT_SECONDS_VARIABLE = "COMPILEGATE_CHECKPOINT_SECONDS"
COMPILE_CACHE_VARIABLE = "COMPILEGATE_COMPILE_CACHE"
JOB_VARIABLE = "COMPILEGATE_JOB"  # the fields of `script.config.JobConfig`, as JSON
COMPILER_VARIABLE = "COMPILEGATE_COMPILER"  # to be tried in a script that is started by hand
SCRIPT_VARIABLE = "COMPILEGATE_SCRIPT"
PROCESSES_VARIABLE = "COMPILEGATE_PROCESSES"  # how many of them the launcher starts on each machine
ARGUMENTS_VARIABLE = "COMPILEGATE_ARGUMENTS"
"""As JSON, by declared name: the script's own name, or words for name and value. Of
`ARM_HYPERPARAMETERS`, those not in it are not passed."""
ARGUMENT_STYLE_VARIABLE = "COMPILEGATE_ARGUMENT_STYLE"  # one of `ARGUMENT_STYLES`
PRINTED_VARIABLE = "COMPILEGATE_PRINTED_"  # and a metric's name: the expression that catches it
PERCENT_VARIABLE = "COMPILEGATE_PERCENT"  # the printed metrics that are percentages, with spaces
ON_FAILURE_VARIABLE = "COMPILEGATE_ON_FAILURE"  # what the launcher does: one of `ON_FAILURE`
TIME_LIMIT_VARIABLE = "COMPILEGATE_TIME_LIMIT"  # seconds that a candidate's job may take
ATTEMPT_VARIABLE = "COMPILEGATE_ATTEMPT"  # another value has the step cache train a candidate again
JOB_STARTED_VARIABLE = "COMPILEGATE_JOB_STARTED"  # on the system's monotonic clock
SCRIPT_ARGUMENTS_VARIABLE = "COMPILEGATE_SCRIPT_ARGUMENTS"  # as JSON, for PyTorch 1.10's
PROFILE_VARIABLE = "COMPILEGATE_PROFILE"  # steps to profile, then end; after a colon, the folder
EARLIER_ATTEMPTS_VARIABLE = "COMPILEGATE_EARLIER_ATTEMPTS"  # how they ended, with commas
FAILURE_NOTE_VARIABLE = "COMPILEGATE_FAILURE_NOTE"

# Environment variables that others named.
PREPARED_VARIABLE = "SM_CHANNEL_PREPARED"
MODEL_VARIABLE = "SM_MODEL_DIR"
HYPERPARAMETERS_VARIABLE = "SM_HPS"
OUTPUT_DATA_VARIABLE = "SM_OUTPUT_DATA_DIR"
GPU_COUNT_VARIABLE = "GPU_NUM_DEVICES"  # what torch_xla 1.x asks how many GPUs the machine has
INDUCTOR_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
TRITON_CACHE_VARIABLE = "TRITON_CACHE_DIR"
COMPILE_THREADS_VARIABLE = "TORCHINDUCTOR_COMPILE_THREADS"
NEURON_CACHE_VARIABLE = "NEURON_COMPILE_CACHE_URL"
XLA_DEVICE_VARIABLE = "PJRT_DEVICE"
VISIBLE_GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"

# Hyperparameters that every training program is given, under the names that a workload declares.
SEED = "seed"
COMPILER = "compiler"
BATCH_SIZE = "batch_size"
LEARNING_RATE = "learning_rate"
PRECISION = "precision"
EVALUATE_ON = "evaluate_on"
PARITY_STEPS = "parity_steps"
SPEED_PROBE_SECONDS = "speed_probe_seconds"
BASELINE_COMPILER = "baseline_compiler"
BASELINE_BATCH_SIZE = "baseline_batch_size"
BASELINE_PRECISION = "baseline_precision"
BASELINE_PADDING = "baseline_padding"
DISTRIBUTION, TORCHRUN = "distribution", "torchrun"
PROCESSES = "processes"  # how many the launcher starts on each machine
ARM_HYPERPARAMETERS = (COMPILER, BATCH_SIZE, LEARNING_RATE, PRECISION, SEED)  # for own programs
GPUS = "n_gpus"  # the GPUs of each instance, for a script that asks; as AWS's own examples call it
ARGUMENT_STYLES = ("--name value", "--name=value", "name=value")  # SageMaker's first

# Hyperparameters of AWS's images.
TRAINING_COMPILER_HYPERPARAMETER = "sagemaker_training_compiler_enabled"
TRAINING_COMPILER_DEBUG_HYPERPARAMETER = "sagemaker_training_compiler_debug_mode"

# Limits and defaults that a workload declares, and the job and the built-in program hold as well.
MOST_PROCESSES = 64
DEFAULT_PARITY_STEPS, MOST_PARITY_STEPS = 4, 1000
MOST_SPEED_PROBE_SECONDS = 3600
DEFAULT_COMPILE_CACHE_MEGABYTES, MOST_COMPILE_CACHE_MEGABYTES = 1024, 100_000
DEFAULT_CHECKPOINT_SECONDS = 300
MOST_BUCKETS = 4  # lengths of buckets: each is a graph to compile

PADDINGS = ("max", "buckets", "longest")  # to one length, a step's to one of a few or its longest
PADDING = "padding"

EVALUATION_PLACES = ("accelerator", "host")  # where all arms of a workload evaluate

ON_FAILURE = ("stop", "record")  # when an arm cannot be trained: fail, or write evidence
ON_WRONG = ("stop", "go-on")  # when a candidate's arithmetic is wrong: end, or train on

AUTOCAST = "autocast"  # in a recorded recipe: the precision of autocast around what trains
SPEED_METRIC = "samples_per_second"  # of a job that only prints its metrics

# Special names of arms.
NO_ARM = "none"  # where none is registered; no null, since conditions compare it with names
NOTHING_NEW = "nothing-new"  # where the arm that won is the registered model
BASELINE_ARM = "baseline"

# What a job leaves, by SageMaker's names and by ours.
MODEL_ARCHIVE = "model.tar.gz"
OUTPUT_ARCHIVE = "output.tar.gz"
DOCTOR_FILE = "doctor.json"  # of a job that examined its image and its instance
DOCTOR_TEXT_FILE = "doctor.txt"  # the same for people
PROFILE_FOLDER = "step-profile"
PROFILE_FILE = "profile.json"
TRACE_FILE = "trace.json.gz"
EVIDENCE_FOLDER = "evidence"
REGISTRATION_FILE = "registration.txt"  # beside a registered model's evidence: the digest of how
EVIDENCE_FILE = "evidence.json"
STEPS_FILE = "steps.npz"
EXAMPLES_FILE = "examples.npz"
PARITY_FILE = "parity.npz"
PAIRED_FILE = "paired.npz"
TRAINED_ON_FILE = "trained_on.npz"
REPRO_SCRIPT = "repro.py"

# What the gate leaves.
VERDICT_FILE = "verdict.json"
REPORT_FILE = "report.html"
REPORT_MARKDOWN_FILE = "report.md"
POSTURE_FILE = "posture.json"  # what an execution showed of each candidate
NOTICE_FILE = "notice.json"
STATISTICS_FILE = "statistics.json"
MODEL_CARD_FILE = "model_card.json"
OBSERVATIONS_FILE = "observations.json"
REPROS_FOLDER = "repros"  # with a folder ARM--SEED for each script that shows wrong arithmetic


def job_variable(number: int) -> str:
    """The variable that holds this part, from 1, of a job's configuration."""
    return JOB_VARIABLE if number == 1 else f"{JOB_VARIABLE}_{number}"


# What a job prints of its progress.
COMPILING_LINE = "compilegate: the first step compiles"
COMPILED_LINE = "compilegate: the first step has ended"
