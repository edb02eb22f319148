"""What a check found: as text, JSON, SARIF, or GitHub's annotations."""
