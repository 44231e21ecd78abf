"""Options that several commands share, or that belong to one noun."""
