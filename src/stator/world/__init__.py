"""The boundary between the captured program and everything that existed before it."""
