"""Traced tensors: stand-ins for tensors whose operations are recorded as FX nodes."""
