"""What happened: the event stream, and the logs and reports made from it."""
