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
