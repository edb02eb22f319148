import torch
# ==== fires: a method compiles itself, after google-research/timesfm timesfm_2p5_torch.py
class TimesFM(torch.nn.Module):
    def load_checkpoint(self, path):
        self = torch.compile(self)  # <- compiled-discarded
        self.eval()
# ==== fires: errors are passed over, a result is not kept, another is not called
torch._dynamo.config.suppress_errors = True  # <- compiled-discarded
torch.compile(model)  # <- compiled-discarded
fast = torch.compile(model, mode="max-autotune")  # <- compiled-discarded
print(model(inputs))
# ==== clean: kept where it is compiled, after apapiu/transformer_latent_diffusion train.py
if train_config.compile:
    model = torch.compile(model)
model, train_loader = accelerator.prepare(model, train_loader)
