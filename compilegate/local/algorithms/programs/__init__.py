"""What trains as AWS's images do: programs that are started by path and import nothing of ours."""
