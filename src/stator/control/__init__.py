"""What programs say to the compiler: where to break, what to keep out of a capture, when not to compile."""
