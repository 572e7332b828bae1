"""Symbolic sizes and numbers."""
