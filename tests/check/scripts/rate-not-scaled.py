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
