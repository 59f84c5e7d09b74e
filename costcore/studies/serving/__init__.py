"""What serving a language model costs: prefill, decode and cache, with their bounds on a device."""
