"""Files, folders and notebooks, read as source. What cannot be read is said and passed over."""
