"""Options and exit codes that several commands share, or that belong to one noun."""
