"""The meta device: tensors and modules without data, and the results of operators on them."""
