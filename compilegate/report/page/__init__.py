"""Pages: one HTML file each, which needs nothing from anywhere and runs no script."""
