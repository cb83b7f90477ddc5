"""Many runs: a study as a TOML file, its plan, the engine that runs it, and its status."""
