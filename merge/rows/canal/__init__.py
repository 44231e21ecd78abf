"""Canal: the rows of a batch as canal's entries, for clients that speak canal's protocol."""
