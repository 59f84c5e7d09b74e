"""What users call: estimate, the hook, tables of models."""
