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
