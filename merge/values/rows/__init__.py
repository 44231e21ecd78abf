"""What images hold beside values: that a column is absent, and dates that no calendar has."""
