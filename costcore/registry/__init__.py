"""The registries of calculators and frontends: built-in ones, those of plug-ins, and those of one run."""
