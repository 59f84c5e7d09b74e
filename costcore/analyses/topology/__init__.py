"""Links between processes, and how long collectives take over them."""
