"""ZooKeeper: the names of canal's tree, our login, and the mark that stops a destination."""
