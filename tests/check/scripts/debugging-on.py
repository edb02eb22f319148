import torch
# ==== fires: all of training is profiled, after gpu-mode/lectures lecture_017/ddp_example.py
from torch.profiler import profile
with profile(record_shapes=True) as prof:  # <- debugging-on
    for i in range(10): loss_fn(ddp_model(inputs), labels).backward(); optimizer.step()
# ==== fires [training-compiler]: the compiler's debug mode, after aws/amazon-sagemaker-examples albert-base-v2.ipynb
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
optimized_estimator = PyTorch(
    compiler_config=TrainingCompilerConfig(debug=True),  # <- debugging-on
    profiler_config=ProfilerConfig(),  # <- debugging-on
)
# ==== fires [training-compiler]: on by default, where nothing turns it off
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
PyTorch(entry_point="train.py", compiler_config=TrainingCompilerConfig())  # <- debugging-on
# ==== clean: a schedule profiles some steps, after karpathy/nanoGPT bench.py
schedule = torch.profiler.schedule(wait=5, warmup=5, active=5)
with torch.profiler.profile(schedule=schedule) as prof:
    for k in range(15): model(X).mean().backward(); optimizer.step(); prof.step()
# ==== clean: behind an option, and off; a compiled job with everything off
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
torch.autograd.set_detect_anomaly(False)
if args.debug:
    torch.autograd.set_detect_anomaly(True)
for inputs in loader: model(inputs).loss.backward(); optimizer.step()
PyTorch(compiler_config=TrainingCompilerConfig(), disable_profiler=True, debugger_hook_config=False)
