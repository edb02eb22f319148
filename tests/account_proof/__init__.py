"""`make prove-aws`: what only a real account can prove, proven in one, which is left as it was."""
