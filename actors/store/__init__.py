"""Keeps a shard's chunks until every subscriber has acknowledged them."""
