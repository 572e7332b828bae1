"""What surrounds a capture at run time: compiled callables, their entries and their modules."""
