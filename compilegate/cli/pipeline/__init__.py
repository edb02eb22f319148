"""What is asked of a definition from elsewhere: which of its steps to carry out, and what it is."""
