"""Finished graphs: their source, their callable, and the backends that compile them."""
