"""Benchmarks: always side by side with torch.compile, in one process, in interleaved rounds."""
