"""What is looked for. docs/check.md lists the rules, and docs/rules/ has a page for each."""
