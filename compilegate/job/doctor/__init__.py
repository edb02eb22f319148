"""What an image and an instance have and lack for each compiler: `compilegate doctor`."""
