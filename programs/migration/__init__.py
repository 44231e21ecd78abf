"""Migration: canal's configuration as our settings, and canal's stream compared with ours."""
