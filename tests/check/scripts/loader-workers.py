import torch
from torch.utils.data import DataLoader
# ==== fires: a loader in a helper, after mtr26/NeoREX training/trainer.py
def get_dataloader(vocab_size, batch_size=4):
    dataset = DummyDataset(vocab_size)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)  # <- loader-workers
def train():
    for batch in tqdm(get_dataloader(32778)): model(batch).loss.backward(); optimizer.step()
# ==== fires: tf.data one at a time, after zzh8829/yolov3-tf2 train.py
import tensorflow as tf
train_dataset = train_dataset.map(lambda x, y: (transform_images(x), y))  # <- loader-workers
train_dataset = train_dataset.prefetch(buffer_size=tf.data.experimental.AUTOTUNE)
model.fit(train_dataset, epochs=FLAGS.epochs)
# ==== clean: workers from the configuration, after kuleshov-group/mdlm dataloader.py
train_loader = DataLoader(train_set, batch_size=8, num_workers=config.loader.num_workers)
for batch in train_loader: model(batch.cuda()).mean().backward(); optimizer.step()
# ==== clean: tensors that lie on the device, a loader that only evaluates, hidden options
from torch.utils.data import TensorDataset
loader = DataLoader(TensorDataset(images.cuda(), labels.cuda()), batch_size=512)
other, valid = DataLoader(data, **read_options()), DataLoader(data, batch_size=8)
for images, labels in [*loader, *other]: model(images).mean().backward(); optimizer.step()
for batch in valid: model(batch)
# ==== clean: the data set itself is on the device
class OnDevice(torch.utils.data.Dataset):
    def __init__(self, images):
        self.images = images.to("cuda")
    def __getitem__(self, index):
        return self.images[index]
for images in DataLoader(OnDevice(images), batch_size=64): model(images).mean().backward(); optimizer.step()
