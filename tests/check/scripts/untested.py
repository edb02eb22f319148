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
