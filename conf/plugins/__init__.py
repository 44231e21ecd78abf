"""Plug-ins: what packages of the user's add to outputs, processing and stores, and its settings."""
