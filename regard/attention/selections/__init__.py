"""scores → weights, in two phases: a few numbers per row, then any tile."""
