"""One rank of a parallel run, in one process: a simulated process group, and the plan that shards a model."""
