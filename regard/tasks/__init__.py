"""what a run is for: how its data are prepared, its requests answered and its inputs shown."""
