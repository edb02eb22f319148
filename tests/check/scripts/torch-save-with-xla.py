import torch, torch_xla.core.xla_model as xm
# ==== fires: every process writes, after awsdocs/amazon-sagemaker-developer-guide training-compiler-pytorch-models.md without xm.save
model = model.to(xm.xla_device())
torch.save(model.state_dict(), path)  # <- torch-save-with-xla
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)  # <- torch-save-with-xla
# ==== clean: by XLA, after aws-samples/sagemaker-trainium-examples train.py
model = model.to(xm.xla_device())
xm.save(model.state_dict(), f"{args.output_dir}/checkpoint.pt")
# ==== clean: moved to the CPU before, and the way without XLA
weights = model.cpu().state_dict()
torch.save(weights, path)
if not args.xla:
    torch.save(model.state_dict(), path)
