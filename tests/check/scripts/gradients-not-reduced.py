import torch, torch_xla.core.xla_model as xm
# ==== fires: clipped before they are gathered, after scttfrdmn/aws-trainium-tutorial-for-research data_parallel_ner.py
torch.distributed.init_process_group(backend="xla")
for batch in device_loader:
    model(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.grad_clip)  # <- gradients-not-reduced
    xm.optimizer_step(optimizer)
# ==== fires: their sum, not their mean
xm.all_reduce("sum", xm._fetch_gradients(optimizer))  # <- gradients-not-reduced
# ==== clean: gathered, then updated by a scaler, after pytorch/xla test/test_train_mp_imagenet_amp.py
def _mp_fn(index):
    for step, (data, target) in enumerate(loader):
        scaler.scale(loss_fn(model(data), target)).backward()
        xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / xr.world_size())
        scaler.step(optimizer)
