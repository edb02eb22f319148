"""Advice written down: as text, as JSON, as a page, as arms in TOML."""
