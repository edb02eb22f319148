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
