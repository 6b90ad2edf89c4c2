"""What Tidelog keeps on disk beside the record batches: names, indexes, checkpoints, snapshots."""
