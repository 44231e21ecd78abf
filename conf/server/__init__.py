"""What the instance files of one server share: a file of settings, and listeners."""
