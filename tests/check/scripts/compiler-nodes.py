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
