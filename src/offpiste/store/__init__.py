"""Storage on a disk or in an object store: objects, checkpoints, records, run folders and bundles. Needs no torch."""
