"""What a job reads: its channels, as files, as a manifest names them, or through a pipe."""
