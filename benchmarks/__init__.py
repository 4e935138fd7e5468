"""What tuneup costs in time and memory, measured side by side with PyG: see README.md."""
