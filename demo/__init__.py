"""A demonstration: a small GPT trained for real through stator and Inductor, next to torch.compile and eager."""
