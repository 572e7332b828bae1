"""What common operations do to metadata, known without running them: each rule answers exactly or declines."""
