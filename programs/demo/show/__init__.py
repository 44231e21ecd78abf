"""What people see of a demo: its phases, a sample of the stream, how far it is, and the verdict in words."""
