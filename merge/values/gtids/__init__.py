"""Sets of GTIDs, as both vendors write them."""
