"""What a script's names stand for: imports, functions, classes and values, over files too."""
