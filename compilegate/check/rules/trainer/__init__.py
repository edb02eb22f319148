"""The arguments of Hugging Face's Trainer."""
