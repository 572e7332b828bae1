"""What native code may do during capture."""
