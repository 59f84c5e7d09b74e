"""From a file to a ``ModelProto`` without weights, and what the file stores."""
