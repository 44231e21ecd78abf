"""A private playground: real servers and a workload, for the demo and the tests."""
