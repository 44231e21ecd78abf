"""Filter settings: row expressions, masks and columns of single tables."""
