"""Studies: many runs described by one TOML file, with plan, cost, driver, Ray engine and status."""
