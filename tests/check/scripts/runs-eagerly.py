import keras, tensorflow as tf
# ==== fires: a loop with its tape, after aws/deep-learning-containers huggingface_tensorflow/train.py
def fit(model, loss, opt, train_dataset):
    for inputs, targets in tqdm(train_dataset):  # <- runs-eagerly
        with tf.GradientTape() as tape:
            value = loss(targets, model(inputs).logits)
        opt.apply_gradients(zip(tape.gradient(value, weights), weights))
# ==== fires: switched to it
tf.config.run_functions_eagerly(True)  # <- runs-eagerly
model.compile(optimizer="adam", run_eagerly=True)  # <- runs-eagerly
# ==== clean: decorated, and called by what is not, after LynnHo/CycleGAN-Tensorflow-2 train.py
@tf.function
def train_D(A, B):
    with tf.GradientTape() as t:
        D_loss = d_loss_fn(D_A(A), D_B(B))
    D_optimizer.apply_gradients(zip(t.gradient(D_loss, weights), weights))
def train_step(A, B):
    return train_D(A, B)
for A, B in A_B_dataset: train_step(A, B)
# ==== clean: wrapped by name, and an option that is eager, after zzh8829/yolov3-tf2 train.py
def step(inputs):
    with tf.GradientTape() as tape:
        value = model(inputs)
    optimizer.apply_gradients(zip(tape.gradient(value, weights), weights))
fast = tf.function(step, jit_compile=True)
for inputs in dataset: fast(inputs)
model.compile(optimizer=optimizer, run_eagerly=(FLAGS.mode == "eager_fit"))
