"""The mapping rules of the operators of TensorFlow Lite, by family."""
