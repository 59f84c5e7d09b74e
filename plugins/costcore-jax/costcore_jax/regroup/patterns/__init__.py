"""The operators that libraries on JAX spell out, by family."""
