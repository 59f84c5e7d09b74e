"""Which calculators and frontends there are: built-in, from plug-ins, and of one run."""
