"""The interpreter: executes bytecode on real values."""
