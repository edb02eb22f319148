"""What people stumble over with torch.compile."""
