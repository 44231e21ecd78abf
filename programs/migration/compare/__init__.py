"""Compare: canal's stream of a source with ours, entry by entry, as canal's clients get both."""
