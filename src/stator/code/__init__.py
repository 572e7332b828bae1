"""Code objects: decoding and the tables that depend on the Python version."""
