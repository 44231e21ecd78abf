"""Canal files: properties with their placeholders, cursors, and encrypted passwords, as canal writes them."""
