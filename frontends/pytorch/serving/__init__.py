"""Run language models with a cache on the meta device."""
