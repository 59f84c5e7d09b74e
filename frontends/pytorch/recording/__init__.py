"""The recording: calls of operators, with the identity of their tensors, their module and their phase."""
