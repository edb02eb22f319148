# #### compiler-job
from sagemaker.huggingface import HuggingFace, TrainingCompilerConfig
# ==== fires: what the SDK refuses, after aws/sagemaker-python-sdk tests/unit/.../test_huggingface_pytorch_compiler.py
HuggingFace(
    entry_point="other.py",
    instance_type="ml.p2.xlarge",  # <- compiler-job
    transformers_version="4.36",  # <- compiler-job
    image_uri="other",  # <- compiler-job
    distribution={"smdistributed": {"dataparallel": {"enabled": True}}},  # <- compiler-job
    compiler_config=TrainingCompilerConfig(),
)
# ==== clean: one GPU, after aws-samples/sagemaker-ssh-helper test_ssh_with_training_compiler
from sagemaker.pytorch import PyTorch
options = dict(framework_version="1.12", instance_count=1, instance_type="ml.g5.xlarge")
PyTorch(entry_point="other.py", compiler_config=TrainingCompilerConfig(), **options)
# #### compiler-nodes
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
# ==== fires: two instances without EFA, or of one GPU, after awsdocs/amazon-sagemaker-developer-guide training-compiler-enable-pytorch.md with more of them
config = TrainingCompilerConfig()
PyTorch(instance_count=2, instance_type="ml.p3.8xlarge", compiler_config=config)  # <- compiler-nodes
PyTorch(instance_type="ml.g5.xlarge", instance_count=4, compiler_config=config)  # <- compiler-nodes
# ==== clean: several with EFA, after aws/deep-learning-containers huggingface_pytorch/.../test_trcomp.py; one; not compiled
PyTorch(instance_count=2, instance_type="ml.p4d.24xlarge", compiler_config=TrainingCompilerConfig())
options = {"instance_type": "ml.p3.8xlarge", "instance_count": 1}
PyTorch(entry_point="run_clm.py", compiler_config=TrainingCompilerConfig(), **options)
PyTorch(instance_type="ml.g5.xlarge", instance_count=4)
# #### untested
from sagemaker.huggingface import HuggingFace, TrainingCompilerConfig
config = TrainingCompilerConfig()
# ==== fires: a model and an instance that no test of AWS has, after aws/sagemaker-python-sdk tests/integ/test_training_compiler.py
HuggingFace(entry_point="run_glue.py", instance_type="ml.g5.16xlarge", compiler_config=config)  # <- untested
HuggingFace(hyperparameters={"model_name_or_path": "distilbert-base-cased"}, compiler_config=config)  # <- untested
# ==== fires: the script that the job starts loads it
HuggingFace(entry_point="entry.py", compiler_config=config)
# ---- entry.py
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("mistralai/Mistral-7B-v0.1")
parser.add_argument("--base-model", default="mistralai/Mistral-7B-v0.1")
model = AutoModelForCausalLM.from_pretrained(args.base_model)  # <- untested
# ==== clean: tested ones, folders, and a model of a job without the compiler, after aws/amazon-sagemaker-examples albert-base-v2.ipynb
HuggingFace(hyperparameters={"model_name": "albert-base-v2"}, compiler_config=config)
HuggingFace(hyperparameters={"model-name": "google-bert/bert-base-uncased"}, compiler_config=config)
HuggingFace(hyperparameters={"model_id": "./checkpoints/last"}, compiler_config=config)
HuggingFace(hyperparameters={"model_id": "google/flan-t5-xxl"}, instance_type="ml.g6.xlarge")
# #### batch-not-raised
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
# ==== fires: the batch called native is kept, after awsdocs/amazon-sagemaker-developer-guide training-compiler-enable-pytorch.md with it left
batch_size_native = 12
hyperparameters = {"n_gpus": 1, "batch_size": batch_size_native}  # <- batch-not-raised
PyTorch(hyperparameters=hyperparameters, compiler_config=TrainingCompilerConfig())
# ==== fires: what AWS's test fitted without it, and that of the job beside
bert = {"model_name_or_path": "bert-base-cased", "max_seq_length": 512, "fp16": True}
options = {"instance_type": "ml.p3.2xlarge", "compiler_config": TrainingCompilerConfig()}
PyTorch(hyperparameters={"per_device_train_batch_size": 12, **bert}, **options)  # <- batch-not-raised
other = {"entry_point": "b.py", "instance_type": "ml.g5.xlarge", "hyperparameters": {"batch_size": 8}}  # <- batch-not-raised
native, compiled = PyTorch(**other), PyTorch(compiler_config=TrainingCompilerConfig(), **other)
# ==== clean: raised, after aws/amazon-sagemaker-examples albert-base-v2.ipynb
batch_size_native = 28
PyTorch(hyperparameters={"train_batch_size": batch_size_native})
PyTorch(hyperparameters={"train_batch_size": 70}, compiler_config=TrainingCompilerConfig())
# #### rate-not-scaled
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
# ==== fires: a larger batch at the rate called native, after awsdocs/amazon-sagemaker-developer-guide training-compiler-enable-pytorch.md with it left
batch_size_native = 12
learning_rate_native = 5e-5
hyperparameters = {"batch_size": 64, "learning_rate": learning_rate_native}
PyTorch(hyperparameters=hyperparameters, compiler_config=TrainingCompilerConfig())  # <- rate-not-scaled
# ==== clean: by the batch of all, after aws/amazon-sagemaker-examples gpt-2.ipynb
global_batch_size = 45 * num_gpus_per_instance * estimator_args["instance_count"]
learning_rate = float("1e-5") / 32 * global_batch_size
options = {"distribution": {"pytorchxla": {"enabled": True}}, "compiler_config": TrainingCompilerConfig()}
PyTorch(hyperparameters={"batch_size": 45, "learning_rate": learning_rate}, **options)
# ==== clean: the script multiplies it by its processes
options = {"instance_type": "ml.p3.8xlarge", "compiler_config": TrainingCompilerConfig()}
xla = {"pytorchxla": {"enabled": True}}
PyTorch(entry_point="entry.py", hyperparameters={"lr": 5e-5}, distribution=xla, **options)
# ---- entry.py
rate = args.learning_rate * xm.xrt_world_size()
# #### preprocessing-workers
from datasets import load_dataset
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
from transformers import Trainer
# ==== fires: a map in one process, after aws/deep-learning-containers huggingface_pytorch/train.py
train_dataset, test_dataset = load_dataset("imdb", split=["train", "test"])
train_dataset = train_dataset.map(tokenize, batched=True)  # <- preprocessing-workers
Trainer(model=model, train_dataset=train_dataset).train()
# ==== fires: fewer than GPUs, and an option that is left
options = {"instance_type": "ml.p3.8xlarge", "compiler_config": TrainingCompilerConfig()}
PyTorch(entry_point="run_clm.py", hyperparameters={"preprocessing_num_workers": 2}, **options)  # <- preprocessing-workers
PyTorch(entry_point="entry.py", hyperparameters={"fp16": True}, **options)  # <- preprocessing-workers
# ---- entry.py
parser.add_argument("--preprocessing_num_workers", type=int, default=None)
# ==== clean: enough of them, after aws/amazon-sagemaker-examples gpt-2.ipynb
options = {"instance_type": "ml.p3.8xlarge", "compiler_config": TrainingCompilerConfig()}
PyTorch(entry_point="run_clm.py", hyperparameters={"preprocessing_num_workers": 12}, **options)
# ==== clean: several processes, a stream, options from elsewhere, a map of something else
data = load_dataset("imdb").map(tokenize, num_proc=workers).map(tokenize, **options)
stream = load_dataset("imdb", streaming=True).map(tokenize)
results = executor.map(tokenize, [1, 2])
Trainer(model=model, train_dataset=data).train()
