"""The connection that dumps a source, and the requests on this connection."""
