"""The operators that libraries on JAX decompose, by family."""
