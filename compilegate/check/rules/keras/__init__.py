"""Loops and models of Keras and TensorFlow."""
