"""Replay: serves a client that is further back than the rings, until it joins the others."""
