import torch
# ==== fires: logged in each step, after huggingface/accelerate examples/finetune_lm_tpu.py
from trl import SFTConfig, SFTTrainer
sft_config = SFTConfig(optim="adafactor", logging_steps=1, dataloader_drop_last=True)  # <- too-often
SFTTrainer(model=model, train_dataset=dataset, args=sft_config).train()
# ==== fires: a checkpoint, an evaluation and pictures in each step
for inputs, labels in loader:
    model(inputs.cuda()).mean().backward(); optimizer.step()
    if rank == 0:
        torch.save(model.state_dict(), "last.pt")  # <- too-often
    evaluate(model, valid)  # <- too-often
    writer.add_histogram("weights", model.weight)  # <- too-often
# ==== clean: a checkpoint every so many steps, after jik876/hifi-gan train.py
for i, batch in enumerate(train_loader):
    generator(batch.to(device)).mean().backward(); optim_g.step()
    if steps % a.checkpoint_interval == 0 and steps != 0:
        torch.save(generator.state_dict(), f"g_{steps:08d}")
    if best is None or steps in (100, 1000):
        writer.add_image("generated", picture)
torch.save(generator.state_dict(), "last.pt")
# ==== clean: once an epoch and every 10 steps, after outerbounds/metaflow-trainium train.py
from transformers import Trainer, TrainingArguments
training_args = TrainingArguments(logging_steps=10, save_strategy="epoch", bf16=args.bf16)
Trainer(model=model, args=training_args).train()
