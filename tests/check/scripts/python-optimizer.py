import torch
# ==== fires: Muon's update, after KellerJordan/modded-nanogpt 2024-10-10_Muon/train_gpt2.py
class Muon(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:  # <- python-optimizer
                buf = self.state[p]["momentum_buffer"]
                buf.mul_(group["momentum"]).add_(p.grad)
                p.data.add_(zeropower(buf), alpha=-group["lr"])
# ==== fires: a manual update in the step
for inputs in loader:
    model(inputs).mean().backward()
    for p in model.parameters():  # <- python-optimizer
        p.data.mul_(1 - decay)
        p.data.sub_(rate * p.grad)
# ==== clean: a running mean of the weights in one operation, after seungeunrho/minimalRL sac.py
def soft_update(q, q_target):
    for param_target, param in zip(q_target.parameters(), q.parameters()):
        param_target.data.copy_(param_target.data * (1.0 - tau) + param.data * tau)
for i in range(20):
    q(s, a).mean().backward(); optimizer.step()
    soft_update(q, q_target)
