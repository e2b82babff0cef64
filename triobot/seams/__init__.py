"""Values and protocols through which packages work together without importing one another."""
