"""The playground, which is not installed: real servers, a load on them, and the demo with both."""
