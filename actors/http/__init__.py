"""The HTTP service of a server: metrics, a REST API for operators, and a page."""
