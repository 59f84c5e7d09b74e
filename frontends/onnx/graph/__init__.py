"""The parts of a graph: nodes and their order, scopes, modules, and what the user gives for inputs and shapes."""
